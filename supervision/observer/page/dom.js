// Dom: the few things that every part does to the document. The rule: what has not changed is not touched.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. `props` are properties, `on*` listeners, and attributes where there is a dash. */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value == null) continue;
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key.includes("-") || key === "role") node.setAttribute(key, value);
    else node[key] = value;
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

/** The shape of a state, hidden from screen readers: the word stands beside it. */
export function shape(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", `shape ${name}`);
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#s-${name}`);
  svg.append(use);
  return svg;
}

/** Change which shape it is. */
export function reshape(svg, name) {
  if (svg.dataset.shape === name) return;
  svg.dataset.shape = name;
  svg.setAttribute("class", `shape ${name}`);
  svg.firstChild.setAttribute("href", `#s-${name}`);
}

export function text(node, value) {
  if (node.textContent !== value) node.textContent = value;
}

export function hide(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

export function attr(node, name, value) {
  if (value == null) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, value);
  }
}

/** An address that names a path of the tree. */
export function href(path) {
  return `#/${path.split("/").map(encodeURIComponent).join("/")}`;
}

/** Make the children of `parent` those of `items`, keeping the elements of items that stay. */
export function sync(parent, items, keyOf, make, update) {
  const old = (parent.keyed ??= new Map());
  const now = new Map();
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    const node = old.get(key) ?? make(item);
    now.set(key, node);
    update(node, item);
    if (node === at) at = at.nextElementSibling;
    else parent.insertBefore(node, at);
  }
  for (const [key, node] of old) if (now.get(key) !== node) node.remove();
  parent.keyed = now;
}

const WIDTH = 64;
const HEIGHT = 16;

/** An empty sparkline. `bars` for what happens now and then, a line for what flows. */
export function spark(kind = "line") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", `spark ${kind}`);
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  svg.append(document.createElementNS(SVG, "path"));
  if (kind === "line") svg.append(document.createElementNS(SVG, "path"));
  return svg;
}

/** Draw the samples of a series; the highest reaches the top, nothing reaches below zero. */
export function plot(svg, values, floor = 0) {
  let top = floor;
  for (const value of values) if (value > top) top = value;
  const step = WIDTH / (values.length - 1);
  const y = (value) => (HEIGHT - 1 - (value / top) * (HEIGHT - 2.5)).toFixed(1);
  const [first, second] = svg.children;
  if (second && top === 0) {
    // Nothing flows: no ink.
    draw(first, "");
    draw(second, "");
    return;
  }
  if (!second) {
    let bars = "";
    values.forEach((value, n) => {
      if (value > 0) bars += `M${(n * step).toFixed(1)} ${HEIGHT}V${y(value)}`;
    });
    draw(first, bars);
    return;
  }
  let line = "";
  let start = null;
  values.forEach((value, n) => {
    if (Number.isNaN(value)) return;
    const x = (n * step).toFixed(1);
    line += `${start === null ? "M" : "L"}${x} ${y(value)}`;
    start ??= x;
  });
  draw(first, start === null ? "" : `${line}L${WIDTH} ${HEIGHT}L${start} ${HEIGHT}Z`);
  draw(second, line);
}

function draw(path, d) {
  if (path.d_ === d) return;
  path.d_ = d;
  path.setAttribute("d", d);
}

/** A bar that shows `n` of `cap`. */
export function bar() {
  const fillOf = el("i");
  const node = el("span", { class: "bar", "aria-hidden": "true" }, fillOf);
  node.set = (n, cap, level) => {
    const share = cap ? Math.min(1, n / cap) : 0;
    const width = `${Math.round(share * 100)}%`;
    if (fillOf.style.width !== width) fillOf.style.width = width;
    if (node.dataset.level !== level) node.dataset.level = level;
  };
  return node;
}
