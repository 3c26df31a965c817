// Actions: buttons that ask once where work would be lost, then say in one sentence, with the time, what came of it.

import { el, hide, text } from "./dom.js";
import { order, token } from "./link.js";
import { clock } from "./words.js";

/** What all bars share: whether this page can act, if not, what the tree was started without, and whom to tell when something was done. */
export const permission = { on: false, missing: "actions", changed: () => {} };

/** A place for buttons. `show(deeds)` draws them; nothing happens if they are the same as before. */
export class Actions {
  #signature = null;
  #buttons = el("span", { class: "buttons" });
  #said = el("span", { class: "said", role: "status" });
  #deeds = [];

  constructor() {
    this.node = el("span", { class: "actions" }, this.#buttons, this.#said);
  }

  show(deeds) {
    const usable = permission.on ? deeds : [];
    const signature = JSON.stringify(usable);
    if (signature === this.#signature) return;
    this.#signature = signature;
    this.#deeds = usable;
    this.#draw();
  }

  #draw() {
    const held = this.#buttons.contains(document.activeElement);
    this.#buttons.replaceChildren(
      ...this.#deeds.map((deed) => el("button", {
        type: "button", class: "do", textContent: deed.label, "data-verb": deed.verb,
        onclick: (event) => {
          event.stopPropagation();
          if (deed.ask || deed.field) this.#confirm(deed);
          else this.#do(deed, deed.body);
        },
      })),
    );
    if (held) this.#buttons.querySelector("button")?.focus();
  }

  /** Ask in the place of the buttons; escape or "no" leaves everything as it is. */
  #confirm(deed) {
    const { field } = deed;
    const input = field && el("input", { type: "number", value: field.value, min: field.min, step: 1, required: !field.optional, "aria-label": field.label });
    const form = el(
      "form",
      {
        class: "confirm",
        onsubmit: (event) => {
          event.preventDefault();
          this.#do(deed, { ...deed.body, confirm: true, ...(field ? { [field.name]: input.value === "" ? null : Number(input.value) } : {}) });
        },
        onkeydown: (event) => {
          if (event.key !== "Escape") return;
          event.stopPropagation();
          this.#draw();
          this.#buttons.querySelector(`[data-verb="${deed.verb}"]`)?.focus();
        },
        onclick: (event) => event.stopPropagation(),
      },
      el("span", { class: "ask", textContent: deed.ask ?? field.label }),
      input,
      el("button", { type: "submit", class: field ? "do" : "do danger", textContent: field ? "set" : deed.label }),
      el("button", { type: "button", class: "do", textContent: "no", onclick: () => this.#draw() }),
    );
    this.#buttons.replaceChildren(form);
    (input ?? form.querySelector("button")).focus();
    input?.select();
  }

  async #do(deed, body) {
    if (!token.get() && !(await askToken())) {
      this.#say("Nothing was done: no token was given.", false);
      this.#draw();
      return;
    }
    this.#draw();
    for (const button of this.#buttons.querySelectorAll("button")) button.disabled = true;
    this.#say(`${deed.label} …`, true);
    try {
      const done = await order(body);
      const failed = Object.entries(done.failed ?? {}).map(([path, why]) => `${path}: ${why}`);
      this.#say([done.said, ...failed].filter(Boolean).join(" "), failed.length === 0);
    } catch (error) {
      if (error.status === 403) token.forget();
      this.#say(error.status ? error.message : "Nothing is known to be done: the tree did not answer.", false);
    }
    for (const button of this.#buttons.querySelectorAll("button")) button.disabled = false;
    permission.changed();
  }

  #say(sentence, well) {
    const at = clock(Date.now() / 1000);
    this.#said.classList.toggle("bad", !well);
    this.#said.replaceChildren(el("time", { textContent: at }), ` ${sentence}`);
    // What was mended leaves the list of what needs a look, and its sentence with it: then it is said below.
    const gone = () => {
      if (!this.node.isConnected) notice(at, sentence);
    };
    if (!sentence.endsWith("…")) for (const delay of [0, 1500, 4000]) setTimeout(gone, delay);
  }

  /** Forget the last sentence: another thing stands here now. */
  forget() {
    this.#said.replaceChildren();
    this.#signature = null;
  }
}

let quiet = null;

/** Say a sentence at the lower edge, for a while. */
function notice(at, sentence) {
  const node = document.getElementById("notice");
  const line = `${at} ${sentence}`;
  if (node.textContent === line) return;
  text(node, line);
  hide(node, false);
  clearTimeout(quiet);
  quiet = setTimeout(() => hide(node, true), 10_000);
}

/** Ask for the token; resolves to whether one was given. */
export function askToken(what = "Actions need") {
  const dialog = document.getElementById("token");
  const input = dialog.querySelector("input");
  text(dialog.querySelector(".why"), `${what} the token that the tree was started with. This tab keeps it until it is closed.`);
  input.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const given = dialog.returnValue === "use" && input.value.trim();
      if (given) token.set(given);
      input.value = "";
      permission.changed();
      resolve(Boolean(given));
    }, { once: true });
  });
}

/** The button in the header that says whether actions are possible. */
export function drawAccess(button) {
  hide(button, false);
  const open = Boolean(token.get());
  button.disabled = !permission.on;
  button.dataset.open = String(permission.on && open);
  text(button, permission.on ? (open ? "actions on" : "actions locked") : "read-only");
  button.title = permission.on
    ? (open ? "This tab has a token. Press to forget it." : "Press to enter the token.")
    : `The tree was started without ${permission.missing}.`;
}
