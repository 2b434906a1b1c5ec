// The lines that replicas print, as many as a page can hold.
import { $, choices, make, write } from "./page.js";

const MOST_LINES = 4000;
const MOST_FOLDED = 200; // in one fold, so that old lines of it can go
const FEW_REPLICAS = 20; // as many as are read at once
const COLOURS = 8;

export class Log {
  /** `restart` reads the lines of another replica. */
  constructor(restart) {
    Object.assign(this, { restart, replica: "", waiting: [], count: 0, colours: new Map(), isPaused: false, timer: 0 });
    this.box = $("log");
    $("replica").addEventListener("change", () => this.choose($("replica").value));
    $("pause").addEventListener("click", () => this.pause(!this.isPaused));
    $("follow").addEventListener("change", () => this.scroll());
    $("fold").addEventListener("change", () => this.fold());
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
    [this.waiting, this.count] = [[], 0];
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
    for (const [replica, text, isOwn] of this.waiting) (isOwn ? this.folded() : this.box).append(this.line(replica, text));
    this.count += this.waiting.length;
    this.waiting = [];
    for (; this.count > MOST_LINES; this.count -= 1) this.removeFirst();
    this.label();
    this.scroll();
  }

  /** The fold for the next line of TensorFlow: the last one, if nothing else has followed and it has room. */
  folded() {
    const last = this.box.lastElementChild;
    if (last?.localName === "details" && last.childElementCount <= MOST_FOLDED) return last;
    const fold = make("details", { open: !$("fold").checked }, make("summary", { class: "quiet" }));
    this.box.append(fold);
    return fold;
  }

  fold() {
    for (const fold of this.box.querySelectorAll("details")) fold.open = !$("fold").checked;
    this.scroll();
  }

  /** Say of each fold how many lines are in it; those that have none go. */
  label() {
    for (const fold of this.box.querySelectorAll("details")) {
      const count = fold.childElementCount - 1;
      if (!count) fold.remove();
      else write(fold.firstElementChild, count === 1 ? "1 line of TensorFlow" : `${count} lines of TensorFlow`);
    }
  }

  removeFirst() {
    const first = this.box.firstElementChild;
    if (first.localName === "details" && first.childElementCount > 1) first.children[1].remove();
    else if (first.localName === "details") {
      first.remove();
      this.removeFirst();
    } else first.remove();
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
    for (const element of this.box.children) {
      const lines = element.localName === "details" ? [...element.children].slice(1) : [];
      for (const line of lines) line.hidden = !this.matches(line);
      element.hidden = lines.length ? lines.every((line) => line.hidden) : !this.matches(element);
      if (lines.length) element.open = !$("fold").checked || ($("find").value !== "" && !element.hidden);
    }
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
