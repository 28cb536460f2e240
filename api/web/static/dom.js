// How is the page built? From elements and text nodes alone: data never becomes markup, whatever a photo is called.

const SVG = "http://www.w3.org/2000/svg";

/** An element. Attributes: `on…` functions listen, true and false set or leave out, all else is written as text. */
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Say something else in a node, only where it is something else: who reads or selects it is not disturbed. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const rowsOf = new WeakMap();

/**
 * Bring the children of a node in line with a list, and keep those that stay: focus and scroll survive an update.
 * `make(item)` gives {node, update(item)}; both are called for a new item.
 */
export function keyed(parent, items, keyOf, make) {
  if (!rowsOf.has(parent)) rowsOf.set(parent, new Map());
  const known = rowsOf.get(parent);
  const wanted = new Map(items.map((item) => [keyOf(item), item]));
  for (const [key, row] of known) {
    if (wanted.has(key)) continue;
    row.node.remove();
    known.delete(key);
  }
  let place = parent.firstElementChild;
  for (const [key, item] of wanted) {
    if (!known.has(key)) known.set(key, make(item));
    const row = known.get(key);
    row.update(item);
    if (row.node === place) place = place.nextElementSibling;
    else parent.insertBefore(row.node, place);
  }
}

/** Tell everybody, also those who do not see the page. */
export function announce(text) {
  say(document.getElementById("news"), text);
}

/** What went wrong, as the server told it. */
export function fault(error) {
  const fields = (error.errors ?? []).map((one) => el("li", {}, `${one.field}: ${one.detail}`));
  return el(
    "div",
    { class: "fault", role: "alert" },
    el("strong", {}, error.title ?? "Something went wrong"),
    el("p", {}, error.message),
    fields.length > 0 && el("ul", {}, fields),
  );
}

/** A place whose content comes and goes: loading, empty, an error, or the thing itself. */
export function slot() {
  const node = el("div", { class: "slot" }, el("p", { class: "quiet" }, "Loading…"));
  return { node, show: (...content) => node.replaceChildren(...content) };
}

/** A table that a phone shows as cards: each cell is told its column. `columns`: [title, class]. */
export function table(caption, columns) {
  const body = el("tbody");
  const head = columns.map(([title, kind]) => el("th", { scope: "col", class: kind }, title));
  const node = el(
    "div",
    { class: "scroll" },
    el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, head)), body),
  );
  const cells = (contents) =>
    contents.map((content, place) => el("td", { "data-column": columns[place][0], class: columns[place][1] }, content));
  return { node, body, row: (contents) => el("tr", {}, cells(contents)) };
}
