// The lines that replicas print, as many as a page can hold.
import { $, choices, make, write } from "./page.js";

const MOST_LINES = 4000;
const FEW_REPLICAS = 20; // as many as are read at once
const COLOURS = 8;

export class Log {
  /** `restart` reads the lines of another replica. */
  constructor(restart) {
    Object.assign(this, { restart, replica: "", waiting: [], colours: new Map(), isPaused: false, timer: 0 });
    this.box = $("log");
    $("replica").addEventListener("change", () => this.choose($("replica").value));
    $("pause").addEventListener("click", () => this.pause(!this.isPaused));
    $("follow").addEventListener("change", () => this.scroll());
    $("find").addEventListener("input", () => this.filter());
    this.box.addEventListener("scroll", () => {
      const isAtEnd = this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 30;
      if ($("follow").checked !== isAtEnd && !this.isScrolling) $("follow").checked = isAtEnd;
      this.isScrolling = false;
    });
    choices($("replica"), [""], ["all"]);
  }

  setReplicas(names, count) {
    const all = count > FEW_REPLICAS ? "the one that says most" : "all";
    choices($("replica"), ["", ...names], [all, ...names]);
    $("replica").value = this.replica;
  }

  choose(replica) {
    this.replica = replica;
    $("replica").value = replica;
    this.box.scrollIntoView({ block: "nearest" });
    this.restart();
  }

  /** Also after a refusal: then the last lines come again. */
  begin(value) {
    this.clear();
    const of = value.replica ? ` of ${value.replica}` : " of each replica";
    this.note(`The last ${value.tail} lines${of}, and all that follow.`);
  }

  clear() {
    this.waiting = [];
    this.box.replaceChildren();
  }

  note(text) {
    write($("log-note"), text);
  }

  skipped(count) {
    this.add([["", `${count} lines were printed faster than they could be shown`]]);
  }

  add(lines) {
    this.waiting.push(...lines);
    if (this.waiting.length > MOST_LINES) this.waiting.splice(0, this.waiting.length - MOST_LINES);
    if (this.isPaused) write($("pause"), `Go on (${this.waiting.length} lines)`);
    else this.timer ||= setTimeout(() => this.flush(), 100);
  }

  pause(isPaused) {
    this.isPaused = isPaused;
    $("pause").setAttribute("aria-pressed", String(isPaused));
    write($("pause"), isPaused ? "Go on" : "Pause");
    if (!isPaused) this.flush();
  }

  flush() {
    this.timer = 0;
    if (this.isPaused) return;
    this.box.append(...this.waiting.map(([replica, text]) => this.line(replica, text)));
    this.waiting = [];
    while (this.box.childElementCount > MOST_LINES) this.box.firstElementChild.remove();
    this.scroll();
  }

  line(replica, text) {
    const prefix = replica && make("span", { class: `c${this.colour(replica)}` }, `${replica} `);
    const element = make("div", { class: replica ? null : "quiet" }, prefix || "", text);
    element.hidden = !this.matches(element);
    return element;
  }

  matches(element) {
    const text = $("find").value.toLowerCase();
    return !text || element.textContent.toLowerCase().includes(text);
  }

  filter() {
    for (const element of this.box.children) element.hidden = !this.matches(element);
    this.scroll();
  }

  scroll() {
    if (!$("follow").checked) return;
    this.isScrolling = true;
    this.box.scrollTop = this.box.scrollHeight;
  }

  colour(replica) {
    if (!this.colours.has(replica)) this.colours.set(replica, this.colours.size % COLOURS);
    return this.colours.get(replica);
  }
}
