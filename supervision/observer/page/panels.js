// Panels: everything round the tree, each drawn from the model by one function.

import { Actions } from "./actions.js";
import { bar, el, hide, href, plot, reshape, shape, spark, sync, text } from "./dom.js";
import { ask } from "./link.js";
import { MEANING, STATES, age, clock, count, deed, fill, lookDeeds, rate } from "./words.js";

const $ = (id) => document.getElementById(id);

// -- counts by state, totals -------------------------------------------------------------------------

export function drawCounts(model, onpick) {
  const { counts } = model.frame;
  const all = STATES.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
  sync(
    $("counts"), ["all", ...STATES], (state) => state,
    (state) => {
      const node = el("button", { type: "button", class: `count ${state}`, onclick: () => onpick(state === "all" ? "" : state) });
      node.n = el("b");
      node.append(...(state === "all" ? [] : [shape(state)]), node.n, el("span", { textContent: state === "all" ? "replicas" : state }));
      node.title = state === "all" ? "Show all" : `${MEANING[state]}. Press to show only these.`;
      return node;
    },
    (node, state) => {
      const n = state === "all" ? all : (counts[state] ?? 0);
      text(node.n, count(n));
      node.classList.toggle("zero", n === 0);
    },
  );
}

/** The tiles: name, how it is drawn. */
const TILES = [
  ["messages/s", (m) => ({ n: rate(m.meter("handled").rate), series: m.meter("handled"), kind: "line" })],
  ["queued", (m) => ({ n: count(m.totals.queued) })],
  ["restarts/min", (m) => ({ n: count(m.meter("restarts").minute), series: m.meter("restarts"), kind: "bars", warn: m.meter("restarts").minute > 0 })],
  ["breakers open", (m) => {
    const open = m.frame.breakers.filter((breaker) => breaker.state !== "closed").length;
    return { n: m.frame.breakers.length ? `${open} of ${m.frame.breakers.length}` : null, bad: open > 0 };
  }],
  ["dead letters", (m) => ({ n: count(m.totals.dead_letters) })],
  ["poison", (m) => ({ n: count(m.totals.poison) })],
  ["live", (m) => health(m.frame.health.live)],
  ["ready", (m) => health(m.frame.health.ready)],
  ["started", (m) => (m.frame.health.started.ok ? { n: null } : health(m.frame.health.started))],
];

function health({ ok, why }) {
  return { n: ok ? "ok" : "no", good: ok, bad: !ok, title: why.join("\n"), note: ok ? "" : why[0] };
}

export function drawTotals(model) {
  const tiles = TILES.map(([name, make]) => ({ name, ...make(model) })).filter((tile) => tile.n != null);
  sync(
    $("totals"), tiles, (tile) => tile.name,
    (tile) => {
      const node = el("div", { class: "tile" }, el("span", { class: "label", textContent: tile.name }));
      node.n = el("b");
      node.line = el("span", { class: "value" }, node.n);
      if (tile.series) node.line.append((node.spark = spark(tile.kind)));
      node.note = el("span", { class: "note" });
      node.append(node.line, node.note);
      return node;
    },
    (node, tile) => {
      text(node.n, tile.n);
      if (node.spark) plot(node.spark, tile.series.values, tile.kind === "bars" ? 1 : 0);
      node.classList.toggle("bad", Boolean(tile.bad));
      node.classList.toggle("warn", Boolean(tile.warn));
      node.classList.toggle("good", Boolean(tile.good));
      text(node.note, tile.note ?? "");
      node.title = tile.title ?? "";
    },
  );
}

// -- needs a look ----------------------------------------------------------------------------------

const LOOKS = { loop: "warn", failed: "failed", restarting: "restarting", stuck: "warn", breaker: "warn", mailbox: "warn", queue: "warn", letters: "warn" };

export function drawLook(model, toIncidents) {
  const { look } = model.frame;
  hide($("look"), look.length === 0);
  text($("look").querySelector(".n"), count(model.frame.looks ?? look.length));
  sync(
    $("look").querySelector("ol"), look, (item) => `${item.kind} ${item.path} ${item.engine ?? ""}`,
    (item) => {
      const node = el("li", { class: item.kind });
      node.actions = new Actions();
      node.what = el("span", { class: "text" });
      const isRow = model.byPath.has(item.path);
      const name = isRow ? el("a", { href: href(item.path), textContent: item.path }) : aside(item, toIncidents);
      name.classList.add("path");
      node.append(shape(LOOKS[item.kind] ?? "warn"), name, node.what, node.actions.node);
      return node;
    },
    (node, item) => {
      // The path stands before it already.
      const bare = item.text.startsWith(`${item.path} `) ? item.text.slice(item.path.length + 1) : item.text;
      text(node.what, bare.replace(/^[:·–-]\s*/, ""));
      node.actions.show(lookDeeds(item, model.byPath.get(item.path)));
    },
  );
}

/** What stands in no row of the tree: a breaker, an engine, or a queue, from which a list can be had. */
function aside({ kind, path: type, engine }, toIncidents) {
  if (kind !== "queue" || !engine) return el("span", { textContent: type });
  return el("button", { type: "button", class: "link", textContent: type, title: "Show these jobs", onclick: () => toIncidents({ engine, type }) });
}

// -- tables ----------------------------------------------------------------------------------------

function table(id, items, keyOf, make, update) {
  hide($(id), items.length === 0);
  sync(
    $(id).querySelector("tbody"), items, keyOf,
    (item) => {
      const row = el("tr");
      row.cells_ = make(row, item);
      return row;
    },
    (row, item) => update(row, row.cells_, item),
  );
}

function cells(row, ...names) {
  return Object.fromEntries(names.map((name) => {
    const cell = el("td", { class: name.startsWith("n_") ? "num" : "" });
    row.append(cell);
    return [name, cell];
  }));
}

const BREAKER_SHAPE = { closed: "running", half_open: "half", open: "warn" };

export function drawBreakers(model) {
  table(
    "breakers", model.frame.breakers, (breaker) => breaker.name,
    (row, breaker) => {
      row.append(el("th", { scope: "row", textContent: breaker.name }));
      const made = cells(row, "state", "n_failed", "act");
      made.shape = shape("running");
      made.word = el("span", { class: "word" });
      made.state.append(made.shape, made.word);
      made.actions = new Actions();
      made.act.append(made.actions.node);
      return made;
    },
    (row, made, breaker) => {
      const { state, retry_after: left } = breaker;
      row.className = `breaker ${state}`;
      reshape(made.shape, BREAKER_SHAPE[state] ?? "warn");
      text(made.word, state === "closed" ? "closed" : state === "half_open" ? "half open" : left == null ? "open" : `open, tries in ${age(left)}`);
      text(made.n_failed, breaker.calls ? `${count(breaker.failures)} of ${count(breaker.calls)}` : "–");
      const verbs = state === "closed" ? ["breaker_open"] : ["breaker_close"];
      made.actions.show(verbs.map((verb) => deed(verb, { path: breaker.name })));
    },
  );
}

export function drawBulkheads(model) {
  table(
    "bulkheads", model.frame.bulkheads, (bulkhead) => bulkhead.name,
    (row, bulkhead) => {
      row.append(el("th", { scope: "row", textContent: bulkhead.name }));
      const made = cells(row, "use", "n_waiting");
      made.bar = bar();
      made.n = el("span", { class: "figure" });
      made.use.append(el("span", { class: "gauge" }, made.bar, made.n));
      return made;
    },
    (_, made, { limit, adaptive, busy, waiting, max_waiting: most }) => {
      const level = fill(busy, limit);
      made.use.title = adaptive ? "a limit that finds itself" : "";
      made.bar.set(busy, limit, level);
      made.use.dataset.level = level;
      text(made.n, `${count(busy)}/${count(limit)}`);
      text(made.n_waiting, most == null ? count(waiting) : `${count(waiting)}/${count(most)}`);
    },
  );
}

export function drawQueues(model, toIncidents) {
  table(
    "queues", model.frame.queues, (queue) => `${queue.engine} ${queue.type}`,
    (row, queue) => {
      const name = el("th", { scope: "row", textContent: `${queue.type} `, title: `kept by ${queue.engine}` });
      row.flag = el("span", { class: "flag", textContent: "paused" });
      name.append(row.flag);
      row.append(name);
      const made = cells(row, "n_ready", "n_active", "n_later", "n_incident", "n_limit", "n_done", "act");
      made.spark = spark("line");
      made.done = el("span", { class: "figure" });
      made.n_done.append(made.spark, made.done);
      const { engine, type } = queue;
      made.incidents = el("button", { type: "button", class: "link", title: "Show these jobs", onclick: () => toIncidents({ engine, type }) });
      made.none = el("span", { textContent: "0" });
      made.n_incident.append(made.incidents, made.none);
      made.actions = new Actions();
      made.act.append(made.actions.node);
      return made;
    },
    (row, made, queue) => {
      const { engine, type, paused, limit } = queue;
      hide(row.flag, !paused && !queue.error);
      text(row.flag, queue.error ?? "paused");
      text(made.n_ready, count(queue.ready));
      text(made.n_active, count(queue.active));
      text(made.n_later, count(queue.scheduled));
      text(made.incidents, count(queue.incident));
      hide(made.incidents, !queue.incident);
      hide(made.none, queue.incident > 0);
      made.n_incident.classList.toggle("bad", queue.incident > 0);
      text(made.n_limit, limit == null ? "–" : count(limit));
      const meter = model.meter(`done ${engine} ${type}`);
      plot(made.spark, meter.values);
      text(made.done, meter.perMinute === null ? "–" : count(Math.round(meter.perMinute)));
      const field = { label: "Active at most (empty: no limit)", name: "n", value: limit ?? "", min: 0, optional: true };
      made.actions.show([deed(paused ? "resume" : "pause", { type, engine }), deed("limit", { type, engine }, {}, { field })]);
    },
  );
}

// -- events ----------------------------------------------------------------------------------------

const LEVELS = { error: "failed", warning: "warn" };

export function drawEvents(model, only) {
  const section = $("events");
  const own = (event) => !only || event.path === only || event.path.startsWith(`${only}/`);
  const shown = model.events.filter(own).slice(-60).reverse();
  text(section.querySelector(".hint"), only ? `of ${only}` : "newest first");
  sync(
    section.querySelector("ol"), shown, (event) => event.seq,
    (event) => {
      // Wherever the sentence names the path, it is a link.
      const at = event.path ? event.text.indexOf(event.path) : -1;
      const link = el("a", { href: href(event.path), textContent: event.path });
      const said = at < 0 ? [event.text] : [event.text.slice(0, at), link, event.text.slice(at + event.path.length)];
      return el(
        "li", { class: event.level, title: event.kind },
        el("time", { textContent: clock(event.wall) }),
        LEVELS[event.level] ? shape(LEVELS[event.level]) : el("span", { class: "shape" }),
        el("span", { class: "text" }, LEVELS[event.level] ? el("span", { class: "say", textContent: `${event.level}: ` }) : null, ...said),
      );
    },
    () => {},
  );
  if (!shown.length) text(section.querySelector(".hint"), "none yet");
}

// -- dead letters and poison: asked for when somebody opens them -----------------------------------

/** A folded panel that asks the tree for its list when it is opened, and again when its count changes. */
export class Lazy {
  #seen = null;

  constructor(id, path, draw) {
    this.section = $(id);
    this.path = path;
    this.draw = draw;
    this.section.addEventListener("toggle", () => this.#load());
  }

  update(total) {
    hide(this.section, !total);
    text(this.section.querySelector(".n"), count(total));
    if (total === this.#seen) return;
    this.#seen = total;
    if (this.section.open) this.#load();
  }

  async #load() {
    if (!this.section.open) return;
    const body = this.section.querySelector(".body");
    try {
      this.draw(body, await ask(this.path, { most: 50 }));
    } catch (error) {
      body.replaceChildren(el("p", { class: "quiet", textContent: error.status ? error.message : "The tree did not answer." }));
    }
  }
}

function lines(body, items, draw = () => "") {
  if (!items.length) body.replaceChildren(el("p", { class: "quiet", textContent: "None is kept." }));
  else body.replaceChildren(el("ol", { class: "lines" }, ...items.map(draw)));
}

export function drawLetters(body, { letters = [] }) {
  const paths = new Map();
  for (const letter of letters) paths.set(letter.path, [...(paths.get(letter.path) ?? []), letter]);
  if (!letters.length) return lines(body, letters);
  body.replaceChildren(...[...paths].map(([path, own]) => {
    const actions = new Actions();
    actions.show(["requeue", "drop"].map((verb) => deed(verb, { path }, {}, { many: own.length })));
    return el(
      "div", { class: "bundle" },
      el("p", { class: "whose" }, el("a", { class: "path", href: href(path), textContent: path }), el("span", { class: "quiet", textContent: count(own.length) }), actions.node),
      el("ol", { class: "lines" }, ...own.slice().reverse().map((letter) => el(
        "li", {},
        el("time", { textContent: letter.when == null ? "" : clock(letter.when) }),
        el("span", { class: "path", textContent: letter.kind ?? "" }),
        el("span", { class: "text", textContent: [letter.reason, letter.error, letter.message].filter(Boolean).join(": ") }),
      ))),
    );
  }));
}

export function drawPoison(body, { poison = [] }) {
  lines(body, poison, (item) => {
    const { engine, type, key } = item;
    const actions = new Actions();
    actions.show(["requeue", "drop"].map((verb) => deed(verb, { engine, type, key })));
    return el(
      "li", {},
      el("time", { textContent: item.when == null ? "" : clock(item.when) }),
      el("span", { class: "path", textContent: `${type} ${key}` }),
      el("span", { class: "text", textContent: item.reason ?? item.error ?? "" }),
      actions.node,
    );
  });
}
