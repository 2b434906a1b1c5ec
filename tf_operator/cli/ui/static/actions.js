// The changes of a job: those that its state and the permissions of the user allow, each after a question.
import { $, choices, make, root, show, write } from "./page.js";

const VERBS = {
  suspend: ["Suspend", "Its pods are deleted, and their logs. Work since the last checkpoint is lost."],
  resume: ["Resume", "Its pods are created again; replicas that have succeeded do not run again."],
  restart: ["Restart", "Its running pods are deleted, and the operator replaces them. Work since the last checkpoint is lost."],
  scale: ["Scale", "The operator creates or deletes pods, as the job allows it."],
  delete: ["Delete", "The job is deleted with its pods and their logs. This cannot be undone."],
};

export class Actions {
  constructor(path, name) {
    Object.assign(this, { path, name, job: null, rights: { verbs: [], note: "" }, verb: "" });
    this.token = document.querySelector("meta[name=token]").content;
    $("cancel").addEventListener("click", () => $("question").close());
    $("confirm").addEventListener("click", () => this.send());
    $("type").addEventListener("change", () => this.count());
    $("number").addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault(); // the button gets the focus back, and must not be pressed by the same key
      this.send();
    });
  }

  allow(rights) {
    this.rights = rights;
    this.draw();
  }

  show(job) {
    this.job = job;
    this.draw();
  }

  /** Draw the buttons if they are others: one that has the focus keeps it. */
  draw() {
    if (!this.token || !this.job) return;
    const verbs = this.job.possible.filter((verb) => this.rights.verbs.includes(verb));
    const note = this.job.possible.length ? this.rights.note : "";
    show($("actions"), verbs.length || note);
    const text = JSON.stringify([verbs, note]);
    if (this.drawn === text) return;
    this.drawn = text;
    const buttons = verbs.map((verb) => {
      const button = make("button", { type: "button", class: verb === "delete" ? "danger" : null }, VERBS[verb][0]);
      button.addEventListener("click", () => this.ask(verb));
      return button;
    });
    $("actions").replaceChildren(...buttons, ...(note ? [make("span", { class: "quiet" }, note)] : []));
    if ($("question").open && !verbs.includes(this.verb)) $("question").close();
  }

  ask(verb) {
    const [title, text] = VERBS[verb];
    Object.assign(this, { verb, uid: this.job.uid });
    write($("question-title"), `${title} ${this.name}?`);
    write($("question-text"), text);
    write($("confirm"), title);
    $("confirm").className = verb === "delete" ? "danger" : "";
    show($("amounts"), verb === "scale");
    const types = this.job.types.map(([type]) => type);
    choices($("type"), types);
    if (types.includes("Worker")) $("type").value = "Worker";
    this.count();
    show($("outcome"), false);
    $("question").showModal();
  }

  count() {
    $("number").value = this.job.types.find(([type]) => type === $("type").value)?.[1] ?? 0;
  }

  async send() {
    const isScale = this.verb === "scale";
    if (isScale && !($("number").value && $("number").checkValidity())) {
      $("number").reportValidity();
      return;
    }
    const order = { verb: this.verb, uid: this.uid, ...(isScale ? { type: $("type").value, replicas: Number($("number").value) } : {}) };
    $("question").close();
    const { text, isDone } = await this.post(order);
    write($("outcome"), text);
    $("outcome").classList.toggle("bad", !isDone);
    show($("outcome"), true);
  }

  async post(order) {
    try {
      const headers = { "Content-Type": "application/json", "X-Tfjob-Page": this.token };
      const answer = await fetch(`${root}change/${this.path}`, { method: "POST", headers, body: JSON.stringify(order) });
      return answer.ok ? await answer.json() : { text: await answer.text(), isDone: false };
    } catch {
      return { text: "Nobody knows whether this was done: tfjob ui does not answer. Does it still run?", isDone: false };
    }
  }
}
