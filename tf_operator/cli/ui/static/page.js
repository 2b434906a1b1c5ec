// What both pages need. Nothing here, or anywhere, makes markup of a text: values become text nodes.

/** The beginning of all addresses of this server, which cannot be guessed. */
export const root = `/${location.pathname.split("/")[1]}/`;

export const $ = (id) => document.getElementById(id);

/** An element with attributes and children; a child that is a string becomes text. */
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same of a drawing. */
export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Change a text only if it is another one: what is selected, or read aloud, stays. */
export function write(element, text) {
  const wanted = text === null || text === undefined ? "" : String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

export function show(element, isShown) {
  element.hidden = !isShown;
}

/** Fill a select, and keep what is chosen. */
export function choices(select, values, labels = values) {
  if (select.dataset.values === values.join(" ")) return;
  const chosen = select.value;
  select.dataset.values = values.join(" ");
  select.replaceChildren(...values.map((value, number) => make("option", { value }, labels[number])));
  select.value = values.includes(chosen) ? chosen : values[0];
}

/** How long ago, as kubectl says it. */
export function age(time, until = Date.now()) {
  if (!time) return "-";
  const seconds = Math.max(0, Math.floor((until - Date.parse(time)) / 1000));
  if (Number.isNaN(seconds)) return "-";
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

/** A moment, which says how long ago it was; the title has the whole time. */
export function moment(time) {
  return time ? make("time", { datetime: time, title: new Date(time).toLocaleString() }, age(time)) : make("span", {}, "-");
}

/** Let the times on the page grow older. */
export function keepTimes() {
  setInterval(() => {
    for (const element of document.querySelectorAll("time")) write(element, age(element.dateTime));
  }, 5000);
}

const NOT_CONNECTED = "Not connected: does tfjob ui still run? The next start prints a new link.";
const SIGNS = { Succeeded: "✓", Failed: "✗", Running: "▶", Restarting: "↻", Suspended: "‖", Queued: "…", Created: "○", New: "○" };

/** A state: a sign, a word and a colour, of which the word is enough. */
export function stateText(state) {
  return [make("span", { "aria-hidden": "true" }, `${SIGNS[state] || "·"} `), state];
}

/**
 * Read the events of a stream while the page can be seen; a hidden page costs nothing.
 * `address` is asked each time, `handlers` are by event, `restarted` is called before the first event.
 */
export class Stream {
  constructor(address, handlers, restarted) {
    Object.assign(this, { address, handlers, restarted, source: null, isOver: false, failures: 0 });
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.open()));
    addEventListener("pagehide", () => this.close());
    addEventListener("pageshow", () => this.open());
    this.open();
  }

  open() {
    if (this.source || this.isOver || document.hidden) return;
    const source = new EventSource(this.address());
    this.source = source;
    source.onopen = () => {
      this.failures = 0;
      this.restarted();
      write($("link"), "");
    };
    source.onerror = () => {
      const isLost = source.readyState === EventSource.CLOSED;
      this.failures += 1;
      write($("link"), isLost || this.failures > 1 ? NOT_CONNECTED : "Connecting…");
      if (isLost) this.again(source.url);
    };
    for (const [event, handle] of Object.entries(this.handlers)) {
      source.addEventListener(event, (message) => handle(JSON.parse(message.data)));
    }
  }

  close() {
    this.source?.close();
    this.source = null;
  }

  /** Begin again after a refusal, of which an event source knows nothing. */
  again(address) {
    this.close();
    fetch(address, { method: "HEAD" }).then(
      (answer) => write($("link"), answer.status === 503 ? "Too many pages are open: close some." : NOT_CONNECTED),
      () => {},
    );
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), 3000);
  }

  restart() {
    this.close();
    this.open();
  }

  /** Nothing will follow. */
  end() {
    this.isOver = true;
    this.close();
  }
}
