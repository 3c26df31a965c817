// Words: numbers, ages and states as people read them. Pure functions, no document.

export const STATES = ["running", "restarting", "failed", "pending", "stopped", "disabled"];

/** Worst first: how rows are ranked by state. */
export const RANK = { failed: 0, restarting: 1, pending: 2, running: 3, stopped: 4, disabled: 5 };

export const MEANING = {
  running: "a run is alive",
  restarting: "waits for its next run",
  failed: "its limit is used up; somebody has to act",
  pending: "its turn to start has not come",
  stopped: "ended well, or was stopped",
  disabled: "not started until enabled",
};

const NUMBERS = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** A count: 12,345. */
export function count(n) {
  return n == null ? "–" : NUMBERS.format(n).replaceAll(",", "\u202f");
}

/** A rate in at most four characters or so; a dash while it is unknown. */
export function rate(n) {
  if (n == null || Number.isNaN(n)) return "–";
  if (n === 0) return "0";
  if (n < 0.095) return "<0.1";
  if (n < 9.95) return n.toFixed(1);
  return n < 99_950 ? count(Math.round(n)) : `${Math.round(n / 1000)}k`;
}

/** A length of time: 0.4 s, 12 s, 3 m 5 s, 2 h 10 m, 3 d 4 h. */
export function age(seconds) {
  if (seconds == null) return "–";
  const s = Math.max(0, seconds);
  if (s < 9.95) return `${s.toFixed(1)} s`;
  if (s < 59.5) return `${Math.round(s)} s`;
  const whole = Math.round(s);
  const steps = [[86_400, "d", 3600, "h"], [3600, "h", 60, "m"], [60, "m", 1, "s"]];
  for (const [big, bigName, small, smallName] of steps) {
    if (whole < big) continue;
    const rest = Math.floor((whole % big) / small);
    return rest ? `${Math.floor(whole / big)} ${bigName} ${rest} ${smallName}` : `${Math.floor(whole / big)} ${bigName}`;
  }
  return `${whole} s`;
}

/** As `age`, in whole seconds and one unit once it is long: for narrow columns. */
export function brief(seconds) {
  if (seconds == null) return "";
  const s = Math.max(0, seconds);
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m`;
  return s < 172_800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86_400)} d`;
}

/** A moment of the wall clock, in seconds since 1970: 14:03:40. */
export function clock(wall) {
  const at = new Date(wall * 1000);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((n) => String(n).padStart(2, "0")).join(":");
}

/** The word of a row: its state, or what a running one is doing. */
export function word(node) {
  if (node.stuck) return "stuck";
  if (node.state === "restarting") {
    return node.next > 0 ? `retry in ${age(node.next)}` : "restarting";
  }
  if (node.state !== "running") return node.state;
  if (node.phase && node.phase !== "ready") return node.phase;
  return node.busy != null && node.busy >= 1 ? `busy ${age(node.busy)}` : "running";
}

/** How full a mailbox is: "" below half, "half" from 50 %, "full" from 80 %. */
export function fill(queued, capacity) {
  if (!capacity || queued * 2 < capacity) return "";
  return queued * 10 < capacity * 8 ? "half" : "full";
}

/** The last part of a path. */
export function last(path) {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** The path above; "" above the root. */
export function above(path) {
  const at = path.lastIndexOf("/");
  return at < 0 ? "" : path.slice(0, at);
}

/** One of several things: 1 row, 2 rows. */
export function some(n, noun) {
  return `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
}

// -- what can be done ---------------------------------------------------------------------------------

const LABELS = {
  breaker_open: "hold open", breaker_close: "close", stop_tree: "stop the tree", start: "start", reset: "reset", cancel: "cancel it",
};

/** What is asked before a verb that loses work, or takes something out of service; null if it may just be done. */
function question(verb, node) {
  const alive = node.state === "running" || node.kind === "group";
  switch (verb) {
    case "restart": return alive ? "Ends what it is doing. Restart?" : null;
    case "stop": return alive ? "Nothing starts it again by itself. Stop?" : null;
    case "disable": return alive ? "Stops it until somebody enables it. Disable?" : null;
    case "stop_tree": return "Stops every worker and ends the program. Stop the tree?";
    case "drop": return "It is gone for good. Drop?";
    case "cancel": return "It ends now and is not run again. Cancel the job?";
    case "breaker_open": return "Every call is refused until it is closed. Hold open?";
    default: return null;
  }
}

/** One button: what it says, what it asks, what it sends. */
export function deed(verb, body, node = {}, more = {}) {
  const now = verb === "restart" && node.state === "restarting" && node.kind !== "group";
  return { verb, label: now ? "try now" : (LABELS[verb] ?? verb), ask: question(verb, node), body: { verb, ...body }, ...more };
}

const BY_STATE = {
  failed: ["restart", "disable"],
  restarting: ["restart", "stop", "disable"],
  running: ["restart", "drain", "stop", "disable"],
  stopped: ["start", "disable"],
  disabled: ["enable"],
  pending: ["start", "disable"],
};

/** What can be done to a row in its present state. */
export function deeds(node) {
  const body = { path: node.path };
  if (!node.parent) {
    return [deed("stop_tree", body, node)];
  }
  if (node.kind === "group") {
    const has = (...states) => states.some((state) => node.counts[state]);
    const verbs = [
      ...(has("running", "restarting", "failed") ? ["restart"] : []),
      ...(has("running") ? ["drain", "stop"] : []),
      ...(has("stopped") && !has("running", "restarting") ? ["start"] : []),
      ...(has("disabled") ? ["enable"] : ["disable"]),
    ];
    return [scaling(node), ...verbs.map((verb) => deed(verb, body, node))];
  }
  const ending = node.phase === "draining" || node.phase === "stopping";
  const verbs = ending ? ["restart", "disable"] : (BY_STATE[node.state] ?? []);
  return verbs.filter((verb) => verb !== "drain" || node.kind === "worker").map((verb) => deed(verb, body, node));
}

/** Changing the number of replicas, with a field for it. */
function scaling(node) {
  const n = node.children.length;
  return deed("scale", { path: node.path }, node, { field: { label: "Replicas", name: "n", value: n, min: 0 } });
}

/** A row of "needs a look" names its verbs itself. */
export function lookDeeds(item, node) {
  const whom = item.kind === "queue" ? { type: item.path, engine: item.engine } : { path: item.path };
  return (item.actions ?? []).map((verb) => deed(verb, whom, node ?? {}));
}

/** What can be done to a job in its state; nothing once it has ended. */
export function jobDeeds({ engine, key, state }) {
  const verbs = { incident: ["retry", "cancel"], scheduled: ["retry", "cancel"], ready: ["cancel"], active: ["cancel"] }[state] ?? [];
  return verbs.map((verb) => deed(verb, { engine, key }));
}

/** The state of a job, and what it waits for. */
export function jobState({ state, due_in: due, worker, attempt, retries, incident_for: waits }) {
  const incident = `incident${waits == null ? "" : ` for ${age(waits)}`}: it needs a person`;
  const now = { scheduled: `scheduled, due in ${age(due)}`, active: `active at ${worker}`, incident }[state] ?? state;
  return `${now}, ${some(attempt, "attempt")}, ${retries === 1 ? "1 retry" : `${count(retries)} retries`} left`;
}
