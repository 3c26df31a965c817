// Model: what frames mean, without a document. It keeps the tree, makes rates from counters that only grow,
// and notices when they begin anew. The rule: a counter that fell says nothing about speed, so no rate is negative.

import { RANK, above, last } from "./words.js";

export const SAMPLES = 32;
const KEPT_EVENTS = 300;
const LOOKED_UP = 8; // job queues are counted every few seconds only

/** One line of a sparkline: the last samples, NaN where there was none. */
export class Series {
  constructor() {
    this.values = new Float32Array(SAMPLES).fill(NaN);
  }

  push(value) {
    this.values.copyWithin(0, 1);
    this.values[SAMPLES - 1] = value ?? NaN;
  }
}

/** A counter that only grows, read as something per second. */
export class Meter extends Series {
  constructor() {
    super();
    this.total = null;
    this.rate = null;
    this.marks = []; // what it was when, over the last minute
    this.waited = 0; // seconds since the last sample
  }

  /** Take the next reading, `dt` seconds after the last; without a usable one before it there is no rate.
      What is looked up less often than frames come has `pause` seconds in which standing still means nothing. */
  read(total, dt, pause = 0) {
    this.waited += dt;
    this.marks = this.marks.map((mark) => ({ ...mark, ago: mark.ago + dt })).filter((mark) => mark.ago <= 61);
    if (this.total !== null && total < this.total) this.marks = [];
    this.marks.push({ total, ago: 0 });
    if (this.total !== null && total === this.total && this.waited < pause) return;
    const grown = this.total === null ? -1 : total - this.total;
    this.rate = grown >= 0 && this.waited > 0 ? grown / this.waited : null;
    this.total = total;
    this.waited = 0;
    this.push(this.rate);
  }

  /** What it grew by in the last minute, as far as that was seen. */
  get minute() {
    return this.marks.length ? this.marks.at(-1).total - this.marks[0].total : 0;
  }

  /** What it grows by in a minute, reckoned from what was seen of the last one; null before ten seconds of it were. */
  get perMinute() {
    const seen = this.marks[0]?.ago ?? 0;
    return seen < 10 ? null : (this.minute * 60) / seen;
  }
}

class Node {
  constructor(path, kind) {
    this.path = path;
    this.kind = kind; // supervisor, group (the replicas of one worker) or worker (one replica)
    this.name = last(path);
    this.parent = null;
    this.depth = 0;
    this.children = [];
    this.counts = null; // of the replicas below it, by state
    this.state = "pending";
    this.stuck = this.seen = false;
    this.phase = this.since = this.next = this.busy = this.error = this.capacity = null;
    this.run = this.restarts = this.ownRestarts = this.failures = this.limit = 0;
    this.queued = this.handled = 0;
    this.rate = this.fell = null; // messages per second, restarts since the frame before; null while unknown
    this.speed = new Series();
    this.falls = new Series();
  }
}

export class Model {
  constructor() {
    this.reset();
  }

  /** Forget everything: another process answers. */
  reset() {
    this.frame = null;
    this.rows = []; // every node, parents first
    this.byPath = new Map();
    this.events = [];
    this.meters = new Map();
    this.totals = {};
    this.paths = [];
  }

  /** Whether `frame` comes from a process that began later than the one of the last frame. */
  isReborn(frame) {
    const old = this.frame;
    return old !== null && (frame.pid !== old.pid || frame.uptime < old.uptime || frame.seq < old.seq);
  }

  /** Take in a frame. Returns whether a new process speaks, and whether rows came or went. */
  take(frame) {
    const reborn = this.isReborn(frame);
    if (reborn) this.reset();
    const dt = this.frame === null ? 0 : frame.uptime - this.frame.uptime;
    this.frame = frame;
    const column = Object.fromEntries(frame.columns.map((name, at) => [name, at]));
    const moved = this.#arrange(frame, column);
    this.#fill(frame, column, dt);
    this.#count(frame, dt);
    this.#remember(frame);
    return { reborn, moved };
  }

  /** The rate of a counter that has a name of its own, such as the jobs done of one type. */
  meter(name) {
    return this.meters.get(name) ?? new Meter();
  }

  /** A moment of the tree's clock as wall time. */
  wall(time) {
    return this.frame.wall - (this.frame.time - time);
  }

  #arrange(frame, column) {
    const { path: at, kind } = column;
    const same = frame.rows.length === this.paths.length && frame.rows.every((row, n) => row[at] === this.paths[n]);
    if (same) return false;
    this.paths = frame.rows.map((row) => row[at]);
    const old = this.byPath;
    const siblings = new Map(); // how many replicas a worker has
    for (const row of frame.rows) {
      if (row[kind] === "worker") siblings.set(above(row[at]), (siblings.get(above(row[at])) ?? 0) + 1);
    }
    this.byPath = new Map();
    this.rows = [];
    for (const row of frame.rows) {
      const path = row[at];
      let parent = this.byPath.get(above(path));
      if (row[kind] === "worker" && !parent) {
        const worker = above(path);
        if (siblings.get(worker) > 1) {
          parent = this.#add(old, worker, "group", this.byPath.get(above(worker)));
        } else {
          const node = this.#add(old, path, "worker", this.byPath.get(above(worker)));
          node.name = last(worker);
          continue;
        }
      }
      this.#add(old, path, row[kind], parent);
    }
    return true;
  }

  #add(old, path, kind, parent = null) {
    const before = old.get(path);
    const node = before && before.kind === kind ? before : new Node(path, kind);
    node.parent = parent;
    node.depth = parent ? parent.depth + 1 : 0;
    node.children = [];
    node.name = last(path);
    if (parent) parent.children.push(node);
    this.byPath.set(path, node);
    this.rows.push(node);
    return node;
  }

  #fill(frame, column, dt) {
    for (const row of frame.rows) {
      const node = this.byPath.get(row[column.path]);
      node.state = row[column.state];
      node.phase = row[column.phase];
      node.run = row[column.run];
      node.failures = row[column.failures];
      node.limit = row[column.limit];
      node.since = row[column.since];
      node.next = row[column.next_restart];
      node.busy = row[column.busy];
      node.error = row[column.error];
      node.stuck = false;
      node.ownRestarts = row[column.restarts];
      if (node.kind !== "worker") continue;
      node.queued = row[column.queued];
      node.capacity = row[column.capacity];
      const { restarts, handled } = node;
      node.restarts = row[column.restarts];
      node.handled = row[column.handled];
      // A replica that was removed and added again counts from zero.
      node.rate = dt > 0 && node.seen && node.handled >= handled ? (node.handled - handled) / dt : null;
      node.fell = dt > 0 && node.seen && node.restarts >= restarts ? node.restarts - restarts : null;
      node.seen = true;
    }
    for (const item of frame.look) {
      const node = item.kind === "stuck" && this.byPath.get(item.path);
      if (node) node.stuck = true;
    }
    // Children stand after their parents: backwards, every sum is complete when it is passed on.
    for (const node of this.rows) {
      if (node.kind === "worker") continue;
      node.counts = {};
      node.queued = node.handled = node.restarts = 0;
      node.capacity = 0;
      node.rate = node.fell = null;
      if (node.kind === "supervisor") {
        Object.assign(node, frame.supervisors[node.path]);
      }
    }
    for (let n = this.rows.length - 1; n >= 0; n -= 1) {
      const node = this.rows[n];
      if (node.kind === "group") node.state = worst(node.counts);
      else if (node.kind === "supervisor") node.restarts += node.ownRestarts;
      node.speed.push(node.rate);
      node.falls.push(node.fell);
      const up = node.parent;
      if (!up) continue;
      if (node.counts) {
        for (const state in node.counts) up.counts[state] = (up.counts[state] ?? 0) + node.counts[state];
      } else {
        up.counts[node.state] = (up.counts[node.state] ?? 0) + 1;
      }
      up.queued += node.queued;
      up.capacity = up.capacity === null || node.capacity === null ? null : up.capacity + node.capacity;
      up.handled += node.handled;
      up.restarts += node.restarts;
      if (node.rate !== null) up.rate = (up.rate ?? 0) + node.rate;
      if (node.fell !== null) up.fell = (up.fell ?? 0) + node.fell;
    }
  }

  #count(frame, dt) {
    const seen = new Set();
    const read = (name, total, pause) => {
      seen.add(name);
      if (!this.meters.has(name)) this.meters.set(name, new Meter());
      this.meters.get(name).read(total, dt, pause);
    };
    for (const name of ["handled", "restarts", "failures", "dead_letters", "poison"]) read(name, frame.totals[name] ?? 0);
    for (const queue of frame.queues) read(`done ${queue.engine} ${queue.type}`, queue.done_total ?? 0, LOOKED_UP);
    for (const name of this.meters.keys()) if (!seen.has(name)) this.meters.delete(name);
    this.totals = frame.totals;
  }

  #remember(frame) {
    const newest = this.events.length ? this.events.at(-1).seq : 0;
    const fresh = frame.events.filter((event) => event.seq > newest);
    for (const event of fresh) event.wall = event.wall ?? this.wall(event.time);
    this.events = [...this.events, ...fresh].slice(-KEPT_EVENTS);
  }

  /** The rows to show. `folded` are paths; a filter opens what it finds; any other order is a flat list of replicas. */
  visible({ folded, filter = "", sort = "tree" }) {
    const tokens = filter.toLowerCase().split(/\s+/).filter(Boolean);
    if (sort !== "tree") {
      const found = this.rows.filter((node) => node.kind === "worker" && matches(node, tokens));
      return found.sort(ORDERS[sort]);
    }
    if (tokens.length) {
      const keep = new Set();
      for (const node of this.rows) {
        if (!matches(node, tokens)) continue;
        for (let up = node; up && !keep.has(up); up = up.parent) keep.add(up);
      }
      return this.rows.filter((node) => keep.has(node));
    }
    const shown = [];
    let hidden = Infinity; // the depth of the folded row whose children are skipped
    for (const node of this.rows) {
      if (node.depth > hidden) continue;
      hidden = folded.has(node.path) && node.children.length ? node.depth : Infinity;
      shown.push(node);
    }
    return shown;
  }
}

const byName = (a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0);
const full = (node) => (node.capacity ? node.queued / node.capacity : node.queued / 1e9);

const ORDERS = {
  name: byName,
  state: (a, b) => (b.stuck ? 1 : 0) - (a.stuck ? 1 : 0) || RANK[a.state] - RANK[b.state],
  mailbox: (a, b) => full(b) - full(a) || b.queued - a.queued,
  rate: (a, b) => (b.rate ?? -1) - (a.rate ?? -1),
  restarts: (a, b) => b.restarts - a.restarts,
};

function matches(node, tokens) {
  if (!tokens.length) return true;
  const text = `${node.path} ${node.kind === "worker" ? node.state : ""} ${node.phase ?? ""} ${node.stuck ? "stuck" : ""} ${node.error ?? ""}`.toLowerCase();
  return tokens.every((token) => text.includes(token));
}

function worst(counts) {
  return Object.keys(counts).sort((a, b) => RANK[a] - RANK[b])[0] ?? "stopped";
}
