// Bars and curves. Numbers become coordinates, names become text.
import { draw, make, write } from "./page.js";

const WIDTH = 300;
const HEIGHT = 90;

/** A number as short as it is still exact enough to be read. */
export function short(value) {
  return value === null || value === undefined ? "" : String(Number(value.toPrecision(4)));
}

/** A share of 100, with a mark for what is saved of it. Its text stands beside it. */
export function bar(share, mark = null, tone = "done") {
  const width = Math.min(100, Math.max(0, share ?? 0));
  return draw(
    "svg",
    { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    draw("rect", { class: "room", width: 100, height: 8 }),
    draw("rect", { class: tone, width, height: 8 }),
    mark === null ? null : draw("rect", { class: "mark", x: Math.min(99, mark), width: 1, height: 8 }),
  );
}

/** How far a job is, as text and bar; nothing if it never said. */
export function progressBar(progress) {
  if (!progress) return [];
  const { percentage, step, left } = progress;
  const parts = [percentage !== null ? `${percentage} %` : step !== null ? `step ${step}` : "", progress.hung ? "no progress" : left && `${left} left`];
  const text = make("span", { class: progress.hung ? "hung" : "quiet" }, parts.filter(Boolean).join(", "));
  return percentage === null ? [text] : [bar(percentage, progress.mark, progress.hung ? "late" : "done"), text];
}

/** A path through points; it is broken where a value is missing, or where a training has gone back. */
function path(points) {
  let [text, last] = ["", null];
  for (const [x, y] of points) {
    const isBreak = y === null || (last !== null && x < last);
    if (y !== null) text += `${text && !isBreak && last !== null ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    last = y === null ? null : x;
  }
  return text;
}

function scale(values, size) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) if (value !== null) [low, high] = [Math.min(low, value), Math.max(high, value)];
  const span = high - low || 1;
  return { low, high, at: (value) => (high === low ? size / 2 : ((value - low) / span) * size) };
}

/** A small curve for a table, of values at equal distances. */
export function sparkline(values) {
  const [x, y] = [80 / Math.max(1, values.length - 1), scale(values, 18)];
  return draw(
    "svg",
    { class: "sparkline", viewBox: "-1 -1 82 20", "aria-hidden": "true" },
    draw("path", { d: path(values.map((value, number) => [number * x, 18 - y.at(value)])) }),
  );
}

/** The curves of a job: one for each metric, which pointer and arrow keys read. */
export class Charts {
  constructor(box) {
    Object.assign(this, { box, charts: new Map(), points: [], names: [], reported: new Map(), uid: null });
  }

  /** Forget what another job of this name has reported. */
  keep(uid) {
    if (this.uid !== null && this.uid !== uid) {
      Object.assign(this, { points: [], names: [], reported: new Map() });
      this.frame ||= requestAnimationFrame(() => this.draw());
    }
    this.uid = uid;
  }

  /** A stream that begins again, because the page was hidden, knows nothing of what the page had before. */
  add({ uid, names, points, most, isMore }) {
    this.keep(uid);
    const places = names.map((name) => this.names.indexOf(name));
    const before = isMore ? this.points : this.points.filter(([time]) => time < points[0][0]);
    const earlier = before.map(([time, step, ...values]) => [time, step, ...places.map((place) => values[place] ?? null)]);
    this.points = [...earlier, ...points].slice(-most);
    this.names = names;
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  /** What was reported the last time, as it was written: it may be no number. */
  report(metrics) {
    this.reported = new Map(metrics);
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = 0;
    const hasSteps = this.points.every((point) => point[1] !== null);
    this.names.forEach((name, number) => {
      if (!this.charts.has(name)) {
        this.charts.set(name, new Chart(name));
        this.box.append(this.charts.get(name).element);
      }
      const points = this.points.map((point) => [hasSteps ? point[1] : point[0], point[number + 2] ?? null]);
      this.charts.get(name).show(points, hasSteps, this.reported.get(name));
    });
    for (const [name, chart] of this.charts) {
      if (this.names.includes(name)) continue;
      chart.element.remove();
      this.charts.delete(name);
    }
  }
}

class Chart {
  constructor(name) {
    this.name = name;
    this.place = null;
    this.line = draw("path", { class: "curve" });
    this.cursor = draw("line", { class: "cursor", y1: 0, y2: HEIGHT, hidden: true });
    this.picture = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, this.line, this.cursor);
    this.frame = make("div", { class: "plot", role: "slider", tabindex: 0, "aria-label": name, "aria-valuemin": 0, "aria-valuemax": 0, "aria-valuenow": 0 }, this.picture);
    [this.value, this.high, this.low, this.from, this.to] = Array.from({ length: 5 }, () => make("span"));
    this.element = make(
      "figure",
      { class: "chart" },
      make("figcaption", {}, make("strong", {}, name), " ", this.value),
      make("div", { class: "scale quiet" }, this.high, this.low),
      this.frame,
      make("div", { class: "range quiet" }, this.from, this.to),
    );
    this.frame.addEventListener("pointermove", (event) => this.point(event));
    this.frame.addEventListener("pointerleave", () => this.read(null));
    this.frame.addEventListener("blur", () => this.read(null));
    this.frame.addEventListener("keydown", (event) => this.key(event));
  }

  show(points, hasSteps, reported) {
    Object.assign(this, { points, hasSteps, reported, x: scale(points.map(([x]) => x), WIDTH) });
    const y = scale(points.map(([, value]) => value), HEIGHT - 6);
    this.line.setAttribute("d", path(points.map(([x, value]) => [this.x.at(x), value === null ? null : HEIGHT - 3 - y.at(value)])));
    write(this.high, short(y.high));
    write(this.low, y.high === y.low ? "" : short(y.low));
    write(this.from, this.placeOf(this.x.low));
    write(this.to, this.x.low === this.x.high ? "" : this.placeOf(this.x.high));
    this.read(this.place === null ? null : Math.min(this.place, points.length - 1));
  }

  placeOf(x) {
    return this.hasSteps ? `step ${x}` : new Date(x * 1000).toLocaleTimeString();
  }

  /** Say a value, the last one if none is pointed at. */
  read(place) {
    this.place = place;
    const number = place ?? this.points.length - 1;
    const [x, value] = this.points[number];
    const last = this.reported ?? short(value);
    const text = place === null ? last : `${value === null ? "no number" : short(value)} at ${this.placeOf(x)}`;
    write(this.value, text);
    this.frame.setAttribute("aria-valuemax", this.points.length - 1);
    this.frame.setAttribute("aria-valuenow", number);
    this.frame.setAttribute("aria-valuetext", text || "no number");
    this.cursor.toggleAttribute("hidden", place === null);
    for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, this.x.at(x));
  }

  point(event) {
    const { left, width } = this.frame.getBoundingClientRect();
    const x = ((event.clientX - left) / width) * WIDTH;
    let [best, distance] = [0, Infinity];
    this.points.forEach((point, number) => {
      const here = Math.abs(this.x.at(point[0]) - x);
      if (here <= distance) [best, distance] = [number, here];
    });
    this.read(best);
  }

  key(event) {
    const last = this.points.length - 1;
    const now = this.place ?? last;
    const place = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1, PageDown: now - 10, PageUp: now + 10, Home: 0, End: last }[event.key];
    if (place === undefined) return;
    event.preventDefault();
    this.read(Math.max(0, Math.min(last, place)));
  }
}

/** What a picture of spans and marks means, in the order in which they matter. */
const TONES = { idle: "waits", run: "runs", good: "succeeded", bad: "failed", warn: "warning", saved: "checkpoint" };

/** Lanes of a job and its replicas, over time. */
export function drawPicture(box, { begin, end, lanes, more }) {
  const [from, to] = [Date.parse(begin), Date.parse(end)];
  const at = (time) => Math.min(100, Math.max(0, ((Date.parse(time) - from) / Math.max(1000, to - from)) * 100));
  const clock = (time) => (to - from > 86_400_000 ? new Date(time).toLocaleString() : new Date(time).toLocaleTimeString());
  const used = new Set();
  const piece = (what, tone, x, width, shape) => {
    used.add(tone);
    return draw("rect", { class: tone, x: Math.min(x, 100 - width), width, ...shape }, draw("title", {}, what));
  };
  const rows = lanes.flatMap(({ name, spans, marks }) => [
    make("span", { class: "lane" }, name),
    draw(
      "svg",
      { viewBox: "0 0 100 16", preserveAspectRatio: "none" },
      ...spans.map(([start, stop, tone, what]) => piece(what, tone, at(start), Math.max(0.5, at(stop ?? end) - at(start)), { y: 4, height: 8 })),
      ...marks.map(([time, tone, what]) => piece(`${clock(time)} ${what}`, `at ${tone}`, at(time), 0.4, { y: 0, height: 16 })),
    ),
  ]);
  const legend = Object.entries(TONES).filter(([tone]) => used.has(tone) || used.has(`at ${tone}`));
  box.replaceChildren(
    ...rows,
    make("div", { class: "range quiet" }, make("span", {}, clock(from)), make("span", {}, clock(to))),
    make("p", { class: "legend quiet" }, ...legend.map(([tone, what]) => make("span", { class: `key ${tone}` }, what)), more ? `${more} more replicas` : ""),
  );
  const said = lanes.map(({ name, spans, marks }) => `${name} ${spans.at(-1)?.[3] ?? ""}, ${marks.length} marks`);
  box.setAttribute("aria-label", `Timeline of ${lanes.length} lanes, which the list below tells in words: ${said.slice(0, 6).join("; ")}`);
}
