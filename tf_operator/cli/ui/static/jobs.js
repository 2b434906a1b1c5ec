// The table of all jobs. All rows are in memory; a page of them is in the document.
import { bar, progressBar, short, sparkline } from "./charts.js";
import { $, age, choices, keepTimes, make, moment, root, show, stateText, Stream, write } from "./page.js";

const ROWS = 100;
const COLUMNS = [
  { name: "name", title: "Name" },
  { name: "state", title: "State" },
  { name: "namespace", title: "Namespace" },
  { name: "kind", title: "Kind" },
  { name: "ready", title: "Ready" },
  { name: "progress", title: "Progress", type: "progress" },
  { name: "curve", title: "Metric", type: "curve" },
  { name: "restarts", title: "Restarts", type: "number" },
  { name: "created", title: "Age", type: "newest" },
  { name: "message", title: "Message" },
];

const jobs = new Map();
const shownRows = new Map();
const asked = new URLSearchParams(location.search);
const view = { by: asked.get("by") || "created", isReversed: asked.has("reversed"), page: 0 };
const curves = new Map();
let notes = {};
let shape = "";
let isComplete = false;
let timer = 0;

/** Without those that would be empty, or the same everywhere. */
function columns() {
  return COLUMNS.filter(({ name }) => !["kind", "progress", "curve"].includes(name) || shape.includes(name));
}

function shapeOf(values) {
  const parts = [new Set(values.map((job) => job.kind)).size > 1 ? "kind" : "", values.some((job) => job.progress) ? "progress" : ""];
  return [...parts, curves.size ? "curve" : ""].join(" ");
}

/** What a column is sorted by. */
function rank(job, column) {
  if (column.type === "progress") return job.progress ? (job.progress.percentage ?? 0) : -1;
  if (column.type === "curve") return curves.get(job.id)?.values.at(-1) ?? Infinity;
  return job[column.name] ?? "";
}

function wanted() {
  const text = $("text").value.trim().toLowerCase();
  const [namespace, state] = [$("namespace").value, $("state").value];
  return [...jobs.values()].filter(
    (job) =>
      (!namespace || job.namespace === namespace) &&
      (!state || job.state === state) &&
      (!text || job.name.includes(text) || job.message.toLowerCase().includes(text)),
  );
}

function compare(left, right) {
  const column = COLUMNS.find((each) => each.name === view.by) || COLUMNS[0];
  const [a, b] = [rank(left, column), rank(right, column)];
  let order = a < b ? -1 : a > b ? 1 : 0;
  if (column.type === "newest") order = -order;
  return (view.isReversed ? -order : order) || (left.id < right.id ? -1 : 1);
}

function drawHead() {
  const cells = columns().map((column) => {
    const isSorted = column.name === view.by;
    const sort = isSorted ? (view.isReversed ? "descending" : "ascending") : null;
    const sign = make("span", { "aria-hidden": "true" }, isSorted ? (view.isReversed ? " ▼" : " ▲") : "");
    const button = make("button", { type: "button" }, column.title, sign);
    button.addEventListener("click", () => {
      view.isReversed = isSorted && !view.isReversed;
      view.by = column.name;
      drawHead();
      draw();
      $("jobs").querySelector(`th[data-name=${column.name}] button`).focus();
    });
    return make("th", { scope: "col", "aria-sort": sort, "data-name": column.name, class: column.type === "number" ? "number" : column.name }, button);
  });
  $("jobs").tHead.rows[0].replaceChildren(...cells);
}

function cell(job, column) {
  if (column.name === "name") {
    const path = [job.kind, job.namespace, job.name].map(encodeURIComponent).join("/");
    return make("th", { scope: "row" }, make("a", { href: `${root}jobs/${path}` }, job.name));
  }
  if (column.name === "state") return make("td", {}, make("span", { class: "state", "data-state": job.state }, ...stateText(job.state)));
  if (column.name === "created") return make("td", {}, moment(job.created));
  if (column.name === "progress") return make("td", { class: "progress" }, ...progressBar(job.progress));
  if (column.name === "curve") return make("td", { class: "curve" }, ...curveOf(job));
  const text = String((column.name === "message" && notes[job.id]) || job[column.name]);
  if (column.name === "message") return make("td", { class: "message", title: text || null }, make("div", {}, text));
  return make("td", { class: column.type === "number" ? "number" : column.name }, text);
}

function curveOf(job) {
  const curve = curves.get(job.id);
  if (!curve) return [];
  return [sparkline(curve.values), make("span", { class: "quiet" }, `${curve.name} ${short(curve.values.at(-1))}`)];
}

/** What a single machine has, and who has asked for it. */
function drawRoom(resources) {
  show($("room"), resources.length);
  const parts = resources.map(({ name, share, text, holders }) => {
    const isDevice = name.includes("/") && holders.length;
    return make("div", {}, make("strong", {}, name), ` ${text} requested`, bar(share, null, share > 99 ? "late" : "done"), isDevice && make("span", { class: "quiet" }, holders.join(", ")));
  });
  $("room").replaceChildren(...parts);
}

/** The row of a job, as it is if nothing of the job has changed. */
function rowOf(job) {
  const known = shownRows.get(job.id);
  if (known?.job === job && known.curve === curves.get(job.id)) return known.element;
  const element = make("tr", {}, ...columns().map((column) => cell(job, column)));
  if (known?.element.contains(document.activeElement)) {
    known.element.replaceWith(element);
    element.querySelector("a").focus();
  }
  shownRows.set(job.id, { job, element, curve: curves.get(job.id) });
  return element;
}

function draw() {
  const found = wanted().sort(compare);
  const pages = Math.max(1, Math.ceil(found.length / ROWS));
  view.page = Math.min(view.page, pages - 1);
  const page = found.slice(view.page * ROWS, (view.page + 1) * ROWS);
  const body = $("jobs").tBodies[0];
  const focused = document.activeElement;
  page.forEach((job, place) => {
    const element = rowOf(job);
    if (body.rows[place] !== element) body.insertBefore(element, body.rows[place] || null);
  });
  while (body.rows.length > page.length) body.lastElementChild.remove();
  const ids = new Set(page.map((job) => job.id));
  for (const id of shownRows.keys()) if (!ids.has(id)) shownRows.delete(id);
  if (focused?.isConnected && document.activeElement !== focused) focused.focus();

  write($("count"), isComplete || jobs.size ? (found.length === jobs.size ? `${jobs.size} jobs` : `${found.length} of ${jobs.size} jobs`) : "Loading…");
  show($("pages"), pages > 1);
  write($("page"), `Page ${view.page + 1} of ${pages}`);
  $("previous").disabled = view.page === 0;
  $("next").disabled = view.page === pages - 1;
  // Without the right to list jobs nobody knows whether there are any.
  show($("empty"), isComplete && !found.length && (jobs.size > 0 || $("problem").hidden));
  write($("empty"), jobs.size ? "No job matches." : "There is no job yet. tfjob run FILE or tfjob submit FILE makes one.");
}

/** Draw soon: many changes come at once. */
function redraw() {
  timer ||= setTimeout(() => {
    timer = 0;
    const values = [...jobs.values()];
    choices($("namespace"), ["", ...new Set(values.map((job) => job.namespace).sort())], undefined);
    choices($("state"), ["", ...new Set(values.map((job) => job.state).sort())], undefined);
    if (shape !== shapeOf(values)) {
      shape = shapeOf(values);
      shownRows.clear();
      $("jobs").tBodies[0].replaceChildren();
      drawHead();
    }
    for (const select of [$("namespace"), $("state")]) write(select.options[0], "all");
    draw();
  }, 100);
}

function remember() {
  const kept = new URLSearchParams();
  for (const name of ["text", "namespace", "state"]) if ($(name).value) kept.set(name, $(name).value);
  if (view.by !== "created") kept.set("by", view.by);
  if (view.isReversed) kept.set("reversed", "");
  history.replaceState(null, "", kept.size ? `?${kept}` : location.pathname);
}

$("text").value = asked.get("text") || "";
for (const name of ["namespace", "state"]) {
  const chosen = asked.get(name);
  if (chosen) $(name).append(make("option", { value: chosen, selected: true }, chosen));
}
$("filters").addEventListener("input", () => {
  view.page = 0;
  draw();
  remember();
});
$("filters").addEventListener("submit", (event) => event.preventDefault());
$("jobs").tHead.addEventListener("click", remember);
for (const [id, step] of [["previous", -1], ["next", 1]]) {
  $(id).addEventListener("click", () => {
    view.page += step;
    draw();
  });
}
keepTimes();
drawHead();
new Stream(
  () => `${root}stream`,
  {
    head: (value) => {
      write($("cluster"), value.title);
      write($("note"), value.note);
      show($("note"), value.note);
    },
    rows: (rows) => {
      for (const job of rows) jobs.set(job.id, job);
      redraw();
    },
    gone: (ids) => {
      for (const id of ids) [jobs, curves].forEach((known) => known.delete(id));
      redraw();
    },
    curves: (found) => {
      for (const [id, name, values] of found) curves.set(id, { name, values });
      redraw();
    },
    problem: (text) => {
      write($("problem"), text);
      show($("problem"), text);
      redraw();
    },
    room: (found) => {
      notes = found.notes;
      drawRoom(found.resources);
      shownRows.clear();
      redraw();
    },
    complete: () => {
      isComplete = true;
      redraw();
    },
  },
  () => {
    jobs.clear();
    curves.clear();
    shownRows.clear();
    show($("problem"), false);
    isComplete = false;
  },
);
