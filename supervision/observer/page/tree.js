// Tree: the rows, of which only those in sight are in the document. Five thousand replicas cost what forty do.

import { attr, bar, el, href, plot, reshape, shape, spark, text } from "./dom.js";
import { MEANING, STATES, above, brief, count, fill, rate, word } from "./words.js";

const SPARE = 6; // rows drawn beyond the edges, so that scrolling does not show a gap
const OPEN_GROUP = 8; // larger groups begin folded

export class Tree {
  constructor(section, { onopen }) {
    this.grid = section.querySelector(".grid");
    this.body = section.querySelector(".rows");
    this.none = section.querySelector(".none");
    this.filterBox = section.querySelector("#filter");
    this.sortBox = section.querySelector("#sort");
    this.foldsButton = section.querySelector("#folds");
    this.n = section.querySelector("h2 .n");
    this.onopen = onopen;
    this.model = null;
    this.shown = [];
    this.folded = new Set();
    this.known = new Set(); // groups whose first fold was decided
    this.at = 0; // the row that the keys are on
    this.selected = null;
    this.pool = [];
    this.height = 0;
    this.grid.addEventListener("scroll", () => this.draw(), { passive: true });
    this.grid.addEventListener("keydown", (event) => this.#arrows(event));
    this.body.addEventListener("click", (event) => this.#click(event));
    this.filterBox.addEventListener("input", () => this.arrange());
    this.sortBox.addEventListener("change", () => this.arrange());
    this.foldsButton.addEventListener("click", () => this.foldAll());
    new ResizeObserver(() => this.#measure()).observe(this.grid);
  }

  /** Show the model after a frame. `moved` says that rows came or went. */
  update(model, moved) {
    this.model = model;
    if (moved) this.#foldNew();
    if (moved || this.#lively()) this.arrange();
    else this.draw();
  }

  #lively() {
    return this.sortBox.value !== "tree" || this.filterBox.value.trim() !== "";
  }

  #foldNew() {
    for (const node of this.model.rows) {
      if (node.kind !== "group" || this.known.has(node.path)) continue;
      this.known.add(node.path);
      if (node.children.length > OPEN_GROUP) this.folded.add(node.path);
    }
  }

  /** Work out which rows there are, then draw. */
  arrange() {
    if (!this.model) return;
    const on = this.shown[this.at];
    const filter = this.filterBox.value;
    const sort = this.sortBox.value;
    this.shown = this.model.visible({ folded: this.folded, filter, sort });
    this.flat = sort !== "tree";
    this.open = filter.trim() !== "";
    const kept = on ? this.shown.indexOf(on) : -1;
    this.at = kept >= 0 ? kept : Math.min(this.at, Math.max(0, this.shown.length - 1));
    const workers = this.model.paths.length - Object.keys(this.model.frame.supervisors).length;
    text(this.n, this.open ? `${count(this.shown.length)} rows match` : count(workers));
    text(this.none, this.shown.length ? "" : this.open ? `Nothing matches “${filter.trim()}”.` : "The tree has no children.");
    this.none.hidden = this.shown.length > 0;
    attr(this.grid, "aria-rowcount", this.shown.length + 1);
    text(this.foldsButton, this.#anyOpen() ? "Fold all" : "Unfold all");
    this.foldsButton.disabled = this.flat || this.open;
    this.draw();
  }

  #anyOpen() {
    return this.model.rows.some((node) => node.parent && node.children.length && !this.folded.has(node.path));
  }

  foldAll() {
    if (this.flat || this.open) return;
    const close = this.#anyOpen();
    this.folded.clear();
    if (close) {
      for (const node of this.model.rows) if (node.parent && node.children.length) this.folded.add(node.path);
    }
    this.arrange();
  }

  fold(node, folded = !this.folded.has(node.path)) {
    if (!node.children.length || this.flat || this.open) return;
    if (folded) this.folded.add(node.path);
    else this.folded.delete(node.path);
    this.arrange();
  }

  // -- the keys ------------------------------------------------------------------------------------

  move(by) {
    this.go(this.at + by);
  }

  go(at) {
    this.at = Math.max(0, Math.min(this.shown.length - 1, at));
    this.#reveal(this.at);
    this.grid.classList.add("keys");
    this.draw();
  }

  /** Fold or unfold the row that the keys are on. */
  toggle() {
    const node = this.shown[this.at];
    if (node) this.fold(node);
  }

  enter() {
    const node = this.shown[this.at];
    if (node) this.onopen(node.path);
  }

  #arrows(event) {
    const node = this.shown[this.at];
    const page = Math.max(1, Math.floor(this.grid.clientHeight / this.height) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.go(this.at + steps[event.key]);
    else if (event.key === "ArrowRight" && node) this.fold(node, false);
    else if (event.key === "ArrowLeft" && node) {
      if (node.children.length && !this.folded.has(node.path) && !this.flat) this.fold(node, true);
      else if (node.parent) this.go(this.shown.indexOf(node.parent));
    } else return;
    event.preventDefault();
  }

  #click(event) {
    const row = event.target.closest(".row");
    if (!row?.node) return;
    this.at = row.at;
    this.grid.classList.remove("keys");
    if (event.target.closest(".twist")) {
      this.fold(row.node);
      event.preventDefault();
    } else if (!event.target.closest("a")) {
      this.onopen(row.node.path);
    }
    this.draw();
  }

  /** Mark the row of `path`, opening what is folded around it. */
  select(path) {
    this.selected = path;
    const node = path && this.model?.byPath.get(path);
    if (node) {
      let opened = false;
      for (let up = node.parent; up; up = up.parent) opened = this.folded.delete(up.path) || opened;
      if (opened) this.arrange();
      const at = this.shown.indexOf(node);
      if (at >= 0) {
        this.at = at;
        this.#reveal(at, 0.3);
      }
    }
    this.draw();
  }

  /** Bring a row into sight; `share` says how far from the top, if it was not. */
  #reveal(at, share = null) {
    const top = at * this.height;
    const space = this.grid.clientHeight - this.heads;
    const over = top < this.grid.scrollTop;
    const under = top + this.height > this.grid.scrollTop + space;
    if (!over && !under) return;
    if (share !== null) this.grid.scrollTop = top - share * space;
    else this.grid.scrollTop = over ? top : top + this.height - space;
  }

  // -- drawing -------------------------------------------------------------------------------------

  #measure() {
    this.height = parseFloat(getComputedStyle(this.grid).getPropertyValue("--row")) || 30;
    this.heads = this.grid.querySelector(".heads").offsetHeight;
    this.draw();
  }

  draw() {
    if (!this.model || !this.height) return;
    const tall = `${this.shown.length * this.height}px`;
    if (this.body.style.height !== tall) this.body.style.height = tall;
    const first = Math.max(0, Math.floor(this.grid.scrollTop / this.height) - SPARE);
    const room = Math.ceil(this.grid.clientHeight / this.height) + 2 * SPARE;
    const end = Math.min(this.shown.length, first + room);
    while (this.pool.length < end - first) this.pool.push(this.#row());
    // A row's element goes by its place modulo the size of the pool: scrolling by one line changes one element.
    const size = this.pool.length;
    const used = new Set();
    for (let at = first; at < end; at += 1) {
      const row = this.pool[at % size];
      used.add(row);
      this.#fill(row, this.shown[at], at);
    }
    for (const row of this.pool) {
      if (!used.has(row) && row.node) {
        row.hidden = true;
        row.node = null;
      }
    }
    attr(this.grid, "aria-activedescendant", this.shown.length ? `row-${this.at}` : null);
  }

  #row() {
    const row = el("div", { class: "row", role: "row" });
    const part = (name, role, ...children) => {
      const cell = el("span", { class: name, role }, ...children);
      row.append(cell);
      return cell;
    };
    row.twist = el("span", { class: "twist", "aria-hidden": "true" }, shape("fold"));
    row.worker = el("span", { class: "of" });
    row.link = el("a", { tabIndex: -1 });
    row.where = el("span", { class: "where" });
    row.times = el("span", { class: "times" });
    row.first = part("name", "rowheader", row.twist, el("span", { class: "both" }, row.worker, row.link), row.times, row.where);
    row.shape = shape("running");
    row.word = el("span", { class: "word" });
    row.tally = el("span", { class: "tally" });
    row.state = part("state", "gridcell", row.shape, row.word, row.tally);
    row.bar = bar();
    row.mail = el("span", { class: "figure" });
    row.box = part("mail", "gridcell", row.bar, row.mail);
    row.speed = spark("line");
    row.rate = el("span", { class: "figure" });
    part("rate", "gridcell", row.speed, row.rate);
    row.falls = spark("bars");
    row.restarts = el("span", { class: "figure" });
    part("restarts", "gridcell", row.falls, row.restarts);
    row.since = part("since", "gridcell");
    this.body.append(row);
    return row;
  }

  #fill(row, node, at) {
    if (row.at !== at || row.hidden) {
      row.at = at;
      row.hidden = false;
      row.id = `row-${at}`;
      row.style.top = `${at * this.height}px`;
      attr(row, "aria-rowindex", at + 2);
    }
    const depth = this.flat ? 0 : node.depth;
    if (row.node !== node || row.depth !== depth) {
      row.node = node;
      row.depth = depth;
      row.style.setProperty("--depth", depth);
      attr(row, "aria-level", depth + 1);
      attr(row, "data-kind", node.kind);
      attr(row.link, "href", href(node.path));
      row.title = node.path;
    }
    text(row.link, node.name);
    text(row.worker, node.parent?.kind === "group" ? `${node.parent.name}/` : "");
    text(row.where, this.flat && node.parent ? (node.parent.kind === "group" ? above(node.parent.path) : node.parent.path) : "");
    text(row.times, node.kind === "group" ? `×${node.children.length}` : "");
    const folds = node.children.length > 0 && !this.flat;
    const folded = folds && !this.open && this.folded.has(node.path);
    attr(row, "aria-expanded", folds ? String(!folded) : null);
    attr(row, "aria-selected", String(node.path === this.selected));
    row.classList.toggle("at", at === this.at);
    row.classList.toggle("bad", node.kind !== "group" && (node.state === "failed" || Boolean(node.stuck)));

    this.#drawState(row, node);
    const level = node.kind === "worker" ? fill(node.queued, node.capacity) : "";
    const bounded = node.kind === "worker" && node.capacity;
    row.bar.hidden = !bounded;
    if (bounded) row.bar.set(node.queued, node.capacity, level);
    attr(row.box, "data-level", level);
    text(row.mail, bounded ? `${count(node.queued)}/${count(node.capacity)}` : node.queued ? count(node.queued) : "");
    text(row.rate, node.kind === "worker" || node.rate ? rate(node.rate) : node.rate === 0 ? "0" : "");
    row.mail.classList.toggle("zero", !node.queued);
    row.rate.classList.toggle("zero", !node.rate);
    plot(row.speed, node.speed.values);
    text(row.restarts, count(node.restarts));
    row.restarts.classList.toggle("zero", !node.restarts);
    plot(row.falls, node.falls.values, 1);
    text(row.since, node.since == null ? "" : brief(node.since));
  }

  #drawState(row, node) {
    const group = node.kind === "group";
    reshape(row.shape, node.stuck ? "warn" : node.state);
    row.shape.style.display = group ? "none" : "";
    text(row.word, group ? "" : word(node));
    // What cannot be seen because it is folded away, or further below, is counted here.
    const parts = node.counts
      ? STATES.filter((state) => node.counts[state] && (group || state === "failed" || state === "restarting" || state === "pending"))
      : [];
    const tally = parts.map((state) => `${state} ${node.counts[state]}`).join(" ");
    if (row.tallied === tally) return;
    row.tallied = tally;
    row.tally.replaceChildren(
      ...parts.map((state) => el(
        "span", { class: "one", title: `${node.counts[state]} ${state}: ${MEANING[state]}` },
        shape(state), String(node.counts[state]), el("span", { class: "say", textContent: ` ${state}` }),
      )),
    );
  }
}

