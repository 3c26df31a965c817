// Link: the connection to the tree. It says plainly whether what is seen is true now, and comes back by itself.
//
// States: connecting, live, paused (nobody looks), lost (since when, next attempt when), stopped (the tree has ended).

const FIRST_WAIT = 500;
const LONGEST_WAIT = 8000;
const TOKEN = "treewarden-token";

export class Link {
  /** `onframe` gets the text of a frame, `onstate` this link after each change. */
  constructor({ onframe, onstate }) {
    this.onframe = onframe;
    this.onstate = onstate;
    this.kind = "connecting";
    this.lostAt = null; // when the last frame came before the connection was lost, by this machine's clock
    this.retryAt = null;
    this.every = 1;
    this.refused = null; // why looking is not allowed, if it is not
    this.#seen = performance.now();
    document.addEventListener("visibilitychange", () => this.#visibility());
    window.addEventListener("online", () => this.retry());
    // A connection can die without a word: no frame for long enough means the same.
    setInterval(() => this.#watch(), 1000);
    this.#open();
  }

  #socket = null;
  #timer = null;
  #wait = FIRST_WAIT;
  #seen;
  #ended = false;

  /** Whether frames are to be shown as the present. */
  get live() {
    return this.kind === "live";
  }

  /** Try now instead of after the wait. */
  retry() {
    if (this.kind !== "lost" && this.kind !== "stopped") return;
    this.#wait = FIRST_WAIT;
    this.#open();
  }

  /** The tree says that it is ending; the close that follows is no loss. */
  ending() {
    this.#ended = true;
  }

  #open() {
    clearTimeout(this.#timer);
    this.#drop();
    const url = new URL("ws", document.baseURI);
    url.protocol = url.protocol.replace("http", "ws");
    url.hash = "";
    const socket = new WebSocket(url, protocols());
    this.#socket = socket;
    this.#seen = performance.now();
    let opened = false;
    socket.onopen = () => {
      opened = true;
      if (document.hidden) this.#visibility();
    };
    socket.onmessage = ({ data }) => {
      this.#seen = performance.now();
      this.#wait = FIRST_WAIT;
      this.#ended = false;
      this.lostAt = null;
      this.refused = null;
      if (this.kind !== "live" && !document.hidden) this.#become("live");
      this.onframe(data);
    };
    socket.onclose = ({ code }) => {
      this.#lost(code === 1001);
      if (!opened) this.#why();
    };
  }

  #drop() {
    const socket = this.#socket;
    this.#socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  #lost(stopped) {
    this.#socket = null;
    this.lostAt ??= Date.now() - (performance.now() - this.#seen);
    const wait = this.#wait * (0.8 + 0.4 * Math.random());
    this.#wait = Math.min(this.#wait * 2, LONGEST_WAIT);
    this.retryAt = Date.now() + wait;
    this.#timer = setTimeout(() => this.#open(), wait);
    this.#become(stopped || this.#ended ? "stopped" : "lost");
  }

  /** A browser does not say why a socket did not open: ask in plain HTTP. */
  async #why() {
    try {
      await ask("api/snapshot");
    } catch (error) {
      this.refused = error.status === 401 || error.status === 403 ? error.message : null;
      this.onstate(this);
    }
  }

  #watch() {
    const patience = Math.max(6, 4 * this.every) * 1000;
    if (this.kind === "paused" || !this.#socket || performance.now() - this.#seen < patience) return;
    this.#drop();
    this.#lost(false);
  }

  #visibility() {
    if (!this.#socket || this.#socket.readyState !== WebSocket.OPEN) {
      if (!document.hidden) this.retry();
      return;
    }
    this.#socket.send(JSON.stringify({ pause: document.hidden }));
    this.#seen = performance.now();
    this.#become(document.hidden ? "paused" : "live");
  }

  #become(kind) {
    this.kind = kind;
    this.onstate(this);
  }
}

/** The answer of the tree to a question, as JSON; an error carries its sentence. */
export async function ask(path, query = {}) {
  const url = new URL(path, document.baseURI);
  url.hash = "";
  for (const [key, value] of Object.entries(query)) url.searchParams.set(key, value);
  return answer(await fetch(url, { headers: credentials() }));
}

/** Ask the tree to do something. */
export async function order(body) {
  const headers = { "Content-Type": "application/json", ...credentials() };
  return answer(await fetch(new URL("api/do", document.baseURI), { method: "POST", headers, body: JSON.stringify(body) }));
}

function credentials() {
  return token.get() ? { Authorization: `Bearer ${token.get()}` } : {};
}

/** A browser can give a socket no header: the token travels as a subprotocol. */
function protocols() {
  if (!token.get()) return [];
  const bytes = String.fromCharCode(...new TextEncoder().encode(token.get()));
  return ["treewarden.v1", `bearer.${btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`];
}

async function answer(response) {
  const data = await response.json().catch(() => ({}));
  if (response.ok) return data;
  throw Object.assign(new Error(data.error ?? `the tree answered ${response.status}`), { status: response.status, code: data.code });
}

/** What proves that actions are allowed; this tab forgets it when it is closed. */
export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set: (value) => sessionStorage.setItem(TOKEN, value),
  forget: () => sessionStorage.removeItem(TOKEN),
};
