// Page: puts the parts together. Frames in, one drawing a frame out; the address names what is seen; keys.

import { askToken, drawAccess, permission } from "./actions.js";
import { Detail } from "./detail.js";
import { el, hide, href, shape, text } from "./dom.js";
import { Jobs } from "./jobs.js";
import { Link, token } from "./link.js";
import { Model } from "./model.js";
import { Lazy, drawBreakers, drawBulkheads, drawCounts, drawEvents, drawLetters, drawLook, drawPoison, drawQueues, drawTotals } from "./panels.js";
import { Tree } from "./tree.js";
import { MEANING, STATES, age } from "./words.js";

const $ = (id) => document.getElementById(id);
const TOLD = 60_000; // how long it is said that the process was restarted
const MEASURES = 200;

const model = new Model();
const tree = new Tree($("tree"), { onopen: (path) => go(path) });
const detail = new Detail($("detail"), { onclose: () => go("") });
const letters = new Lazy("letters", "api/letters", drawLetters);
const poison = new Lazy("poison", "api/poison", drawPoison);
const jobs = new Jobs(document.querySelector("#queues .find"), document.querySelector("#queues .lines"));
const toIncidents = (queue) => jobs.incidents(queue);
let reborn = null;

// -- frames ----------------------------------------------------------------------------------------

let newest = null;

/** Only the newest frame is drawn, and only when the browser draws: nothing queues up here either. */
function onframe(data) {
  if (newest === null) requestAnimationFrame(frame);
  newest = data;
}

function frame() {
  const start = performance.now();
  const data = JSON.parse(newest);
  newest = null;
  const old = model.frame;
  const { reborn: anew, moved } = model.take(data);
  if (anew) reborn = { at: Date.now(), from: old.pid, to: data.pid };
  link.every = data.every;
  if (data.mode !== "live") link.ending();
  // Over the network only the token lets anybody act: without one there would be buttons that nobody can use.
  permission.on = data.actions && data.token !== false;
  permission.missing = data.actions ? "a token, so only commands on its machine can act" : "actions";
  draw(moved);
  if (anew || old === null) tree.select(here());
  if (performance.getEntriesByName("frame").length >= MEASURES) performance.clearMeasures("frame");
  performance.measure("frame", { start, end: performance.now(), detail: { rows: data.rows.length, seq: data.seq } });
}

function draw(moved) {
  drawHeader();
  drawCounts(model, pick);
  drawTotals(model);
  drawLook(model, toIncidents);
  tree.update(model, moved);
  drawQueues(model, toIncidents);
  jobs.update(model);
  drawBreakers(model);
  drawBulkheads(model);
  letters.update(model.totals.dead_letters);
  poison.update(model.totals.poison);
  detail.update(model);
  drawEvents(model, detail.path);
  drawLink();
}

// -- the header: who, since when, and whether it is true now -------------------------------------

function drawHeader() {
  const { frame: now } = model;
  text($("name"), now.tree);
  text($("process"), `up ${age(now.uptime)} · pid ${now.pid}${now.host ? ` · ${now.host}` : ""}`);
  const { failed = 0, restarting = 0 } = now.counts;
  const trouble = failed ? `✕ ${failed} failed · ` : restarting ? `◐ ${restarting} restarting · ` : "";
  const title = link.live || link.kind === "paused" ? `${trouble}${now.tree}` : `lost · ${now.tree}`;
  if (document.title !== title) document.title = title;
  drawAccess($("access"));
}

const CHIPS = { connecting: "connecting", live: "live", paused: "paused", lost: "lost", stopped: "stopped" };

function drawLink() {
  const stopping = link.live && model.frame && model.frame.mode !== "live";
  const kind = stopping ? "stopping" : link.kind;
  const chip = $("link");
  chip.dataset.kind = kind;
  text(chip, stopping ? model.frame.mode : CHIPS[kind]);
  document.body.classList.toggle("frozen", kind === "lost" || kind === "stopped");
  const banner = $("banner");
  const [sentence, level, button] = said(kind);
  hide(banner, !sentence);
  banner.dataset.level = level;
  text(banner.firstElementChild, sentence);
  hide(banner.lastElementChild, !button);
  text(banner.lastElementChild, button);
}

/** What the banner says: sentence, level, button. */
function said(kind) {
  const ago = link.lostAt === null ? "" : `${Math.max(0, Math.round((Date.now() - link.lostAt) / 1000))} s ago`;
  const next = Math.max(0, Math.round((link.retryAt - Date.now()) / 1000));
  const again = next ? `Trying again in ${next} s.` : "Trying again …";
  if (link.refused && kind === "lost") return refused(link.refused);
  if (kind === "lost") return [model.frame ? `Connection lost ${ago}, data frozen. ${again}` : `No tree answers here. ${again}`, "bad", "Try now"];
  if (kind === "stopped") return [`The tree stopped ${ago}, data frozen. ${again}`, "bad", "Try now"];
  if (kind === "stopping") return ["The tree is stopping, in order.", "warn", ""];
  if (reborn && Date.now() - reborn.at < TOLD) {
    const pid = reborn.from === reborn.to ? `pid ${reborn.to}` : `pid ${reborn.from}, now ${reborn.to}`;
    return [`Process restarted ${age(model.frame.uptime)} ago (${pid}): rates and history begin anew.`, "warn", "Dismiss"];
  }
  return ["", "", ""];
}

/** Why nothing may be seen here; how to send a token with a request is of no use to who reads a page. */
function refused(why) {
  const sentence = why.replace(/: Authorization.*/, "");
  return [`${sentence[0].toUpperCase()}${sentence.slice(1)}.`, "bad", /token/.test(why) ? "Enter the token" : "Try now"];
}

$("banner").lastElementChild.addEventListener("click", () => {
  if (link.live) reborn = null;
  else if (/token/.test(link.refused)) askToken("From here, looking needs").then((given) => given && link.retry());
  else link.retry();
  drawLink();
});

const link = new Link({
  onframe,
  onstate: () => {
    if (model.frame) drawHeader();
    drawLink();
  },
});
// How long ago it was lost has to be told although no frame comes.
setInterval(() => {
  if (!link.live) drawLink();
}, 1000);

permission.changed = () => {
  drawAccess($("access"));
  jobs.again();
};
$("access").addEventListener("click", () => {
  if (token.get()) token.forget();
  else askToken();
  permission.changed();
});

// -- the address -----------------------------------------------------------------------------------

/** The path that the address names. */
function here() {
  return location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(safe).join("/");
}

function safe(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function go(path) {
  const target = path && path !== here() ? href(path) : "#/";
  if (location.hash !== target) location.hash = target;
}

function route() {
  const path = here();
  document.body.classList.toggle("open", path !== "");
  detail.open(path, model);
  tree.select(path);
  if (model.frame) drawEvents(model, path);
  // On a narrow screen the pane covers the page; the keyboard follows it there.
  if (path && getComputedStyle(detail.node).position === "fixed") detail.node.focus();
}

addEventListener("hashchange", route);
route();

/** Show only the rows of one state; again, or all: everything. */
function pick(state) {
  tree.filterBox.value = tree.filterBox.value === state ? "" : state;
  tree.arrange();
}

// -- keys ------------------------------------------------------------------------------------------

const KEYS = {
  "/": () => tree.filterBox.focus(),
  j: () => tree.move(1),
  k: () => tree.move(-1),
  g: () => tree.go(0),
  G: () => tree.go(Infinity),
  " ": () => tree.toggle(),
  Enter: () => tree.enter(),
  z: () => tree.foldAll(),
  "?": () => $("keys").showModal(),
  Escape: () => {
    if (tree.filterBox.value) pick(tree.filterBox.value);
    else go("");
  },
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const { target, key } = event;
  if (target.matches("input, select, textarea")) {
    if (key === "Escape") {
      target.blur();
      KEYS.Escape();
    } else if (key === "Enter" && target === tree.filterBox) {
      tree.grid.focus();
      tree.go(0);
    }
    return;
  }
  // Space and enter belong to what has the focus, if it can be pressed.
  if ((key === " " || key === "Enter") && target.closest("button, a, summary")) return;
  const act = KEYS[key];
  if (!act || !model.frame) return;
  event.preventDefault();
  act();
});

$("help").addEventListener("click", () => $("keys").showModal());
$("signs").append(...STATES.flatMap((state) => [el("dt", {}, shape(state), ` ${state}`), el("dd", { textContent: MEANING[state] })]));

// -- dark and light ----------------------------------------------------------------------------------

const THEMES = ["system", "light", "dark"];
const THEME = "treewarden-theme";

function theme(name) {
  document.documentElement.dataset.theme = name;
  const sentence = `Colours: ${name === "system" ? "as the system says" : name}`;
  $("theme").title = sentence;
  text($("theme").querySelector(".say"), sentence);
}

theme(localStorage.getItem(THEME) ?? "system");
$("theme").addEventListener("click", () => {
  const name = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
  localStorage.setItem(THEME, name);
  theme(name);
});
