// Detail: one replica, worker or supervisor: how it is, what is allowed to it, what went wrong last, where it waits.

import { Actions, permission } from "./actions.js";
import { bar, el, hide, href, plot, reshape, shape, spark, text } from "./dom.js";
import { ask } from "./link.js";
import { STATES, age, clock, count, deeds, fill, last, rate, word } from "./words.js";

const ASK_EVERY = 1000;

export class Detail {
  constructor(node, { onclose }) {
    this.node = node;
    this.path = null;
    this.model = null;
    this.more = null; // what the tree answered about it
    this.#build(onclose);
  }

  #asked = -Infinity;
  #asking = false;

  #build(onclose) {
    this.title = el("h2", { id: "detail-title" });
    this.close = el("button", { type: "button", class: "plain icon", "aria-label": "Close", title: "Close (esc)", onclick: onclose }, shape("close"));
    this.trail = el("p", { class: "trail quiet" });
    this.shape = shape("running");
    this.word = el("b");
    this.since = el("span", { class: "quiet" });
    this.state = el("p", { class: "now" }, this.shape, this.word, this.since);
    this.error = el("p", { class: "fault" });
    this.actions = new Actions();
    this.readonly = el("p", { class: "quiet small" });
    this.spark = spark("line");
    this.speed = el("b");
    this.flow = el("div", { class: "flow" }, this.spark, el("p", {}, this.speed, el("span", { class: "quiet", textContent: " messages/s" })));
    this.facts = el("dl", { class: "facts" });
    this.extra = el("div", { class: "extra" });
    this.gone = el("p", { class: "quiet" });
    this.node.replaceChildren(
      el("div", { class: "head" }, el("div", {}, this.trail, this.title), this.close),
      this.gone, this.state, this.error, this.actions.node, this.readonly, this.flow, this.facts, this.extra,
    );
  }

  /** Show another path, or nothing. */
  open(path, model) {
    if (path === this.path) return;
    this.path = path;
    this.more = null;
    this.signature = null;
    this.auto = null; // the error that was unfolded because it was new
    this.#asked = -Infinity;
    this.actions.forget();
    this.extra.replaceChildren();
    hide(this.node, !path);
    if (path && model.frame) this.update(model);
  }

  update(model) {
    this.model = model;
    if (!this.path) return;
    const node = model.byPath.get(this.path);
    this.#ask(node);
    text(this.title, node ? (node.parent?.kind === "group" ? `${node.parent.name}/${node.name}` : node.name) : last(this.path));
    this.#drawTrail(node);
    for (const part of [this.state, this.error, this.actions.node, this.flow, this.facts, this.extra]) hide(part, !node);
    text(this.readonly, `Read-only: the tree was started without ${permission.missing}.`);
    hide(this.readonly, permission.on || !node);
    hide(this.gone, Boolean(node));
    if (!node) {
      text(this.gone, `There is no ${this.path} in this tree (any more).`);
      return;
    }
    reshape(this.shape, node.stuck ? "warn" : node.state);
    text(this.word, node.kind === "group" ? groupWord(node) : word(node));
    text(this.since, node.since == null ? "" : ` since ${clock(model.frame.wall - node.since)}, ${age(node.since)}`);
    hide(this.error, !node.error);
    text(this.error, node.error ?? "");
    this.actions.show(deeds(node));
    hide(this.flow, node.rate === null && node.kind !== "worker");
    text(this.speed, rate(node.rate));
    plot(this.spark, node.speed.values);
    this.#drawFacts(node);
    this.#drawExtra();
  }

  #drawTrail(node) {
    const parts = this.path.split("/");
    // A lone replica goes by its worker's name, a replica among others by both.
    const named = node?.kind === "worker" ? 2 : 1;
    const above = parts.slice(0, -named).map((name, n) => el("a", { href: href(parts.slice(0, n + 1).join("/")), textContent: name }));
    if (this.trailed === `${this.path} ${named}`) return;
    this.trailed = `${this.path} ${named}`;
    this.trail.replaceChildren(...above.flatMap((link) => [link, " / "]));
  }

  async #ask(node) {
    const now = performance.now();
    if (this.#asking || !node || node.kind === "group" || now - this.#asked < ASK_EVERY * 0.9) return;
    this.#asking = true;
    this.#asked = now;
    const { path } = this;
    try {
      const more = await ask("api/detail", { path });
      if (path === this.path) this.more = more;
    } catch {
      // The row itself says what is known; the banner says if the tree does not answer.
    } finally {
      this.#asking = false;
    }
    const there = path === this.path && this.model.byPath.get(path);
    if (!there) return;
    this.#drawFacts(there);
    this.#drawExtra();
  }

  #drawFacts(node) {
    const facts = [];
    if (node.kind === "supervisor") {
      facts.push(["strategy", node.strategy?.replaceAll("_", " ")]);
      facts.push(["below it", STATES.filter((state) => node.counts[state]).map((state) => `${node.counts[state]} ${state}`).join(", ") || "nothing"]);
      if (node.intensity != null) facts.push(["budget", { n: node.budget_used, of: node.intensity, tail: `restarts in ${age(node.period)}` }]);
      else facts.push(["budget", "its children have their own limits"]);
    }
    if (node.kind === "worker") {
      const mailbox = this.more?.mailbox ?? {};
      const peak = mailbox.peak ? `, peak ${count(mailbox.peak)}` : "";
      const oldest = mailbox.oldest ? `, oldest ${age(mailbox.oldest)}` : "";
      facts.push(["mailbox", node.capacity ? { n: node.queued, of: node.capacity, tail: `${peak}${oldest}`.slice(2), mail: true } : `${count(node.queued)} queued, unbounded${peak}${oldest}`]);
      const busy = this.more?.handling;
      if (node.busy != null) facts.push(["handling", `${busy?.message ?? "a message"} for ${age(node.busy)}`]);
      facts.push(["handled", count(node.handled)]);
    }
    if (node.kind === "group") {
      facts.push(["replicas", count(node.children.length)], ["queued", count(node.queued)], ["handled", count(node.handled)]);
    }
    if (node.kind !== "group") facts.push(["run", count(node.run)]);
    facts.push(["restarts", count(node.restarts)]);
    const policy = policyLine(this.more?.policy);
    if (policy) facts.push(["policy", policy]);
    if (node.limit) facts.push(["failures", { n: node.failures, of: node.limit, tail: "in a row" }]);
    else if (node.failures) facts.push(["failures", `${count(node.failures)} in a row, no limit`]);
    const signature = JSON.stringify(facts);
    if (signature === this.facted) return;
    this.facted = signature;
    this.facts.replaceChildren(...facts.filter(([, value]) => value != null).flatMap(([name, value]) => [el("dt", { textContent: name }), el("dd", {}, drawn(value))]));
  }

  /** Policy, errors, stack: drawn anew only when they changed, and what was unfolded stays so. */
  #drawExtra() {
    const { policy, errors = [], stack = [] } = this.more ?? {};
    // Not when: reckoned anew for each answer, it trembles, and what a reader has scrolled would jump.
    const signature = JSON.stringify([policy, errors.map(({ run, error, traceback }) => [run, error, traceback]), stack]);
    if (signature === this.signature) return;
    const opened = new Set([...this.extra.querySelectorAll("details[open]")].map((node) => node.dataset.key));
    this.signature = signature;
    const parts = [];
    const newest = [...errors].sort((a, b) => (b.when ?? 0) - (a.when ?? 0));
    if (newest.length) {
      parts.push(el("h3", { textContent: newest.length > 1 ? "Last errors" : "Last error" }));
      newest.forEach((error, n) => {
        const key = `${error.run} ${error.error}`;
        const node = el(
          "details", { "data-key": key },
          el("summary", {}, el("time", { textContent: error.when == null ? "" : clock(error.when) }), el("span", { class: "text", textContent: error.error }), el("span", { class: "quiet", textContent: error.run ? `run ${error.run}` : "" })),
          el("pre", { textContent: lines(error.traceback) || "No traceback was kept.", tabIndex: 0 }),
        );
        // The newest is unfolded by itself, once; what a reader unfolded stays as it is.
        node.open = n === 0 ? opened.has(key) || key !== this.auto : opened.has(key) && key !== this.auto;
        parts.push(node);
      });
      this.auto = `${newest[0].run} ${newest[0].error}`;
    }
    if (stack.length) {
      parts.push(el("h3", { textContent: "Waits at" }), el("pre", { class: "stack", textContent: lines(stack), tabIndex: 0 }));
    }
    const options = Object.entries(policy ?? {}).flatMap(([name, value]) => (value && typeof value === "object" && !Array.isArray(value)
      ? Object.entries(value).map(([inner, one]) => [`${name}.${inner}`, one]) : [[name, value]]));
    if (options.length) {
      const node = el(
        "details", { "data-key": "policy" }, el("summary", {}, el("span", { class: "text", textContent: "All options" })),
        el("dl", { class: "facts" }, ...options.flatMap(([name, value]) => [el("dt", { textContent: name.replaceAll("_", " ") }), el("dd", { textContent: plain(value) })])),
      );
      node.open = opened.has("policy");
      parts.push(node);
    }
    this.extra.replaceChildren(...parts);
  }
}

/** How it is restarted, in one line; the options are plain (`restart.type`) or nested. */
function policyLine(policy) {
  const get = (name) => policy?.[`restart.${name}`] ?? policy?.restart?.[name];
  if (!get("type")) return null;
  const limit = get("max_restarts") ? `at most ${get("max_restarts")} restarts` : "any number of restarts";
  const least = get("initial_backoff");
  const most = get("max_backoff");
  return [get("type"), limit, least == null ? null : `after ${least} s, up to ${most} s`].filter(Boolean).join(", ");
}

function groupWord(node) {
  return STATES.filter((state) => node.counts[state]).map((state) => `${node.counts[state]} ${state}`).join(", ");
}

function drawn(value) {
  if (typeof value !== "object") return String(value);
  const gauge = bar();
  // A budget that is used up is as alarming as a mailbox that is full.
  gauge.set(value.n, value.of, fill(value.n, value.of));
  return el("span", { class: "gauge", "data-level": fill(value.n, value.of) }, gauge, el("span", { class: "figure", textContent: `${count(value.n)}/${count(value.of)}` }), value.tail ? el("span", { class: "quiet", textContent: ` ${value.tail}` }) : null);
}

function lines(value) {
  return Array.isArray(value) ? value.map((line) => line.trimEnd()).join("\n") : (value ?? "").trimEnd();
}

function plain(value) {
  if (value == null) return "none";
  return Array.isArray(value) ? value.join(", ") || "none" : String(value);
}
