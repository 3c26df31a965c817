// One job: asked for by its key below the table of queues, and shown with what can be done to it.

import { Actions } from "./actions.js";
import { el } from "./dom.js";
import { ask } from "./link.js";
import { jobDeeds, jobState } from "./words.js";

export class OneJob {
  #place;
  #asked = 0;

  constructor(form, place) {
    this.#place = place;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#show(form.elements.key.value.trim());
    });
  }

  async #show(key) {
    const asked = ++this.#asked;
    let lines;
    try {
      lines = (await ask("api/jobs", { key })).jobs.map(line);
    } catch (error) {
      lines = [el("li", { class: "quiet", textContent: error.status ? error.message : "The tree did not answer." })];
    }
    if (asked === this.#asked) this.#place.replaceChildren(...lines);
  }
}

function line(job) {
  const actions = new Actions();
  actions.show(jobDeeds(job));
  return el(
    "li", {},
    el("span", { class: "quiet", textContent: job.engine }),
    el("span", { class: "path", textContent: `${job.type} ${job.key}` }),
    el("span", { class: "text", textContent: [jobState(job), job.error].filter(Boolean).join(": ") }),
    actions.node,
  );
}
