// Jobs: shown below the table of queues, with what can be done to each: the one of a key, or all of a type that need a person.

import { Actions } from "./actions.js";
import { el, sync, text } from "./dom.js";
import { ask } from "./link.js";
import { jobDeeds, jobState, some } from "./words.js";

const MOST = 50;

export class Jobs {
  #place;
  #wanted = null; // what the tree was asked for
  #queue = null; // whose incidents are shown, and how many they were
  #asked = 0;

  constructor(form, place) {
    this.#place = place;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#queue = null;
      this.#show({ key: form.elements.key.value.trim() });
    });
  }

  /** Show what waits for a person in a queue, and go there. */
  async incidents({ engine, type }) {
    this.#queue = { engine, type, n: null };
    await this.#show({ state: "incident", type, engine, most: MOST });
    this.#place.focus({ preventScroll: true });
    this.#place.scrollIntoView({ block: "nearest" });
  }

  /** Ask again when there are more or fewer of them than there were. */
  update(model) {
    const own = this.#queue;
    const queue = own && model.frame.queues.find(({ engine, type }) => engine === own.engine && type === own.type);
    if (!queue || queue.incident === own.n) return;
    const first = own.n === null;
    own.n = queue.incident;
    if (!first) this.again();
  }

  /** Ask again: something was done. */
  again() {
    if (this.#wanted) this.#show(this.#wanted);
  }

  async #show(wanted) {
    const asked = ++this.#asked;
    this.#wanted = wanted;
    let items;
    try {
      const { jobs, more } = await ask("api/jobs", wanted);
      items = wanted.key ? jobs : [{ said: heading(wanted.type, jobs.length, more) }, ...jobs];
    } catch (error) {
      items = [{ said: error.status ? error.message : "The tree did not answer." }];
    }
    if (asked === this.#asked) this.#draw(items);
  }

  #draw(items) {
    // One job is read out; of a long list only where it begins, when the keyboard gets there.
    this.#place.ariaLive = items.length > 1 ? "off" : "polite";
    sync(
      this.#place, items, (item) => (item.said ? "" : `${item.engine} ${item.key}`),
      (item) => (item.said ? this.#heading() : line(item)),
      (node, item) => node.fill(item),
    );
  }

  #heading() {
    const said = el("span", { class: "quiet" });
    const close = () => {
      this.#wanted = this.#queue = null;
      this.#asked += 1;
      this.#draw([]);
    };
    const node = el("li", { class: "heading" }, said, el("button", { type: "button", class: "plain", textContent: "close", onclick: close }));
    node.fill = (item) => text(said, item.said);
    return node;
  }
}

function heading(type, n, more) {
  if (more) return `The oldest ${n} jobs of type ${type} that need a person; there are more.`;
  return n ? `${some(n, "job")} of type ${type} ${n === 1 ? "needs" : "need"} a person, the oldest first.` : `No job of type ${type} needs a person now.`;
}

function line(job) {
  const actions = new Actions();
  const state = el("span", { class: "text" });
  const node = el(
    "li", {},
    el("span", { class: "quiet", textContent: job.engine }),
    el("span", { class: "path", textContent: `${job.type} ${job.key}` }),
    state,
    actions.node,
  );
  node.fill = (now) => {
    text(state, [jobState(now), now.error].filter(Boolean).join(": "));
    actions.show(jobDeeds(now));
  };
  return node;
}
