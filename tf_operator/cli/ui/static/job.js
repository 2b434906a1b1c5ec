// The page of one job.
import { Actions } from "./actions.js";
import { bar, Charts, drawPicture } from "./charts.js";
import { Log } from "./log.js";
import { $, keepTimes, make, moment, root, show, stateText, Stream, write } from "./page.js";

const [kind, namespace, name] = location.pathname.split("/").slice(3).map(decodeURIComponent);
const path = [kind, namespace, name].map(encodeURIComponent).join("/");
const actions = new Actions(path, name);
const charts = new Charts($("charts"));
const log = new Log(() => stream.restart());

document.title = `${name} - job`;
write($("name"), name);
write($("kind"), `${kind} in namespace ${namespace}`);

const drawn = new Map();

/** Whether something is to be drawn again: what is selected or has the focus stays as long as nothing changes. */
function isNew(part, value) {
  const text = JSON.stringify(value ?? null);
  if (drawn.get(part) === text) return false;
  drawn.set(part, text);
  return true;
}

/** Names and values, without what is empty. */
function facts(list, found) {
  const wanted = found.filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false && value.length !== 0);
  const nodes = wanted.flatMap(([title, value]) => [
    make("dt", {}, title),
    ...(Array.isArray(value) ? value : [value]).map((each) => make("dd", {}, each)),
  ]);
  list.replaceChildren(...nodes);
}

function onJob(job) {
  if ($("state").dataset.state !== job.state) {
    $("state").dataset.state = job.state;
    $("state").replaceChildren(...stateText(job.state));
  }
  write($("explanation"), `It ${job.explanation}.`);
  actions.show(job);
  show($("note"), job.note);
  write($("note"), job.note);
  onFacts(job);
  charts.keep(job.uid);
  show($("curves"), charts.names.length);
  show($("progress"), job.progress);
  if (job.progress && isNew("progress", job.progress)) onProgress(job.progress);
  show($("failure"), job.failure);
  if (job.failure && isNew("failure", job.failure)) onFailure(job.failure);
  if (isNew("commands", [job.commands, job.tensorboard])) onCommands(job);
  if (isNew("tensorboard", job.tensorboard)) onTensorBoard(job.tensorboard);
  if (job.state === "Deleted") stream.end();
}

function onFacts(job) {
  const { reasons, waits, steps, ready, restarts, created, started, finished } = job;
  if (!isNew("facts", [reasons, waits, steps, ready, restarts, created, started, finished])) return;
  facts($("facts"), [
    ["Why", job.reasons],
    ["Waits for", job.waits],
    ["Next", job.steps],
    ["Ready", job.ready],
    ["Restarts", String(job.restarts)],
    ["Created", moment(job.created)],
    ["Started", job.started && moment(job.started)],
    ["Ran for", job.ran],
    ["Finished", job.finished && moment(job.finished)],
  ]);
}

function onProgress(found) {
  const { percentage, step, left, checkpoint } = found;
  $("bar").replaceChildren(...(percentage === null ? [] : [bar(percentage, found.mark, found.hung ? "late" : "done")]));
  const parts = [percentage !== null && `${percentage} %`, left && `about ${left} left`, step !== null && `step ${step}`];
  write($("percentage"), parts.filter(Boolean).join(", "));
  const saved = checkpoint === null ? null : make("span", {}, `step ${checkpoint}`, ...(found.saved ? [", ", moment(found.saved), " ago"] : []), found.path && `, in ${found.path}`);
  facts($("progress-facts"), [
    ["Checkpoint", saved],
    ["Went on from", found.resumed !== null && `step ${found.resumed}`],
    ["Metrics", found.metrics.filter(([, value]) => !Number.isFinite(Number(value))).map(([name, value]) => `${name} ${value}`).join(", ")],
    ["Reported", found.time && make("span", {}, moment(found.time), " ago")],
  ]);
  charts.report(found.metrics);
}

function onFailure(failed) {
  const button = failed.replica ? make("button", { type: "button" }, `Show the log of ${failed.replica}`) : null;
  button?.addEventListener("click", () => log.choose(failed.replica));
  write($("exception"), failed.message || failed.ended);
  write($("failure-lines"), failed.lines.join("\n"));
  show($("failure-lines"), failed.lines.length);
  facts($("failure-facts"), [
    ["Replica", failed.replica],
    ["Pod", failed.pod],
    ["How", failed.ended],
    ["When", failed.time && moment(failed.time)],
    ["Log", button],
  ]);
}

function onCommands({ commands, tensorboard }) {
  const all = tensorboard ? [...commands, ["Reach TensorBoard", tensorboard.command]] : commands;
  const items = all.map(([what, text]) => {
    const button = make("button", { type: "button", "aria-label": `Copy: ${what}` }, "Copy");
    button.addEventListener("click", () =>
      navigator.clipboard.writeText(text).then(
        () => write($("copied"), `Copied: ${text}`),
        () => write($("copied"), "The browser does not allow it: select the command, and copy it."),
      ),
    );
    return make("li", {}, make("span", { class: "quiet" }, what), make("code", {}, text), button);
  });
  $("commands").replaceChildren(...items);
}

function onTensorBoard(found) {
  show($("tensorboard-section"), found);
  if (!found) return;
  const problems = found.problems.map((text) => make("p", { class: "note bad" }, text));
  $("tensorboard").replaceChildren(
    ...problems,
    make("p", {}, "Forward its port by the command below, then open ", make("a", { href: "http://localhost:6006/", rel: "noreferrer", target: "_blank" }, "localhost:6006"), "."),
  );
}

let replicas = null;
let usage = { rows: {}, note: "" };

/** The columns of the replicas, without those of which nobody has a figure. */
function replicaColumns() {
  const used = Object.values(usage.rows);
  const figure = (name) => (replica) => [usage.rows[replica.name]?.[name] ?? "-"];
  const memory = ({ name }) => {
    const { memory: text, share = null } = usage.rows[name] ?? {};
    return [text ?? "-", share === null ? null : bar(share, null, share > 90 ? "late" : "done")];
  };
  /** What all GPUs of a replica do, and each, if it has several. */
  const gpus = (name) => (replica) => {
    const { [name]: text = "-", gpus: each = [] } = usage.rows[replica.name] ?? {};
    const share = (gpu) => (gpu[`${name}Share`] === null ? null : bar(gpu[`${name}Share`]));
    return [text, ...(each.length === 1 ? each.map(share) : each.map((gpu) => make("div", { class: "quiet" }, `GPU ${gpu.index} ${gpu[name]}`, share(gpu))))];
  };
  return [
    ["State", "", (replica) => [make("span", { class: "tone", "data-tone": replica.tone }, replica.state)]],
    ["Restarts", "number", (replica) => [String(replica.restarts)]],
    ...(used.length ? [["CPU", "number", figure("cpu")], ["Memory", "number", memory]] : []),
    ...(used.some(({ gpuMemory }) => gpuMemory !== "-") ? [["GPU", "number", gpus("gpu")], ["GPU memory", "number", gpus("gpuMemory")]] : []),
    ["Node", "", (replica) => [replica.node || "-"]],
    ["Age", "", (replica) => [moment(replica.created)]],
  ];
}

function onUsage(found) {
  usage = found;
  write($("usage-note"), found.note && `CPU and memory are not shown: ${found.note}`);
  if (replicas) drawReplicas();
}

function onReplicas(found) {
  replicas = found;
  const more = found.count - found.rows.length;
  write($("replica-count"), `${found.running} of ${found.count} run${more > 0 ? `; ${found.rows.length} are shown, those that do not run first` : ""}`);
  drawReplicas();
  log.setReplicas(found.rows.map((replica) => replica.name), found.count);
}

function drawReplicas() {
  const columns = replicaColumns();
  const titles = ["Replica", ...columns.map(([title]) => title)];
  if (isNew("titles", titles)) $("replica-head").replaceChildren(...titles.map((title, number) => make("th", { scope: "col", class: columns[number - 1]?.[1] || null }, title)));
  const rows = replicas.rows.map((replica) =>
    make("tr", {}, make("th", { scope: "row", title: replica.pod }, replica.name), ...columns.map(([, kind, value]) => make("td", { class: kind || null }, ...value(replica)))),
  );
  $("replicas").replaceChildren(...rows);
}

function onTimeline(entries) {
  const items = entries.map((entry) =>
    make(
      "li",
      { "data-tone": entry.tone },
      moment(entry.time),
      make("div", {}, make("strong", {}, entry.what), " ", make("span", { class: "quiet" }, entry.about), make("p", {}, entry.message)),
    ),
  );
  $("timeline").replaceChildren(...(items.length ? items : [make("li", {}, "Nothing was reported yet.")]));
}

$("show-yaml").addEventListener("click", async () => {
  const isShown = $("yaml").hidden;
  show($("yaml"), isShown);
  $("show-yaml").setAttribute("aria-expanded", String(isShown));
  write($("show-yaml"), isShown ? "Hide" : "Show");
  if (!isShown) return;
  try {
    write($("yaml"), await (await fetch(`${root}yaml/${path}`)).text());
  } catch {
    write($("yaml"), "It cannot be read: does tfjob ui still run?");
  }
});

keepTimes();
const stream = new Stream(
  () => `${root}stream/${path}?replica=${encodeURIComponent(log.replica)}`,
  {
    job: onJob,
    replicas: onReplicas,
    usage: onUsage,
    rights: (rights) => actions.allow(rights),
    timeline: onTimeline,
    picture: (value) => {
      show($("picture"), value);
      if (value) drawPicture($("picture"), value);
    },
    curves: (value) => {
      show($("curves"), true);
      charts.add(value);
    },
    problem: (text) => {
      write($("problem"), text);
      show($("problem"), text);
    },
    over: () => stream.end(),
    log: (value) => log.begin(value),
    lines: (lines) => log.add(lines),
    skipped: (count) => log.skipped(count),
    logend: (text) => log.note(text),
  },
  () => {
    show($("problem"), false);
    log.clear();
  },
);
