// What was found in one image? The upright photo with each instance's mask and box over it, and a list in which each
// can be hidden, shown, and pointed at.

import { get, path } from "./api.js";
import { el, fault, say, svg } from "./dom.js";
import { Overlay, colourOf } from "./overlay.js";
import { load } from "./photo.js";
import { badge, count, many, sentence } from "./words.js";

const FOUND = new Set(["done", "skipped"]); // there is a result
const SIDE = 1600; // of the photo that is asked for, in pixels; larger ones cost the server and the eye sees no more

export async function imageView(main, { parameters: [id, place], signal }) {
  const index = Number(place);
  const job = await get(path("api", "v1", "jobs", id), signal);
  const title = el("h1", { tabindex: "-1" }, `Image ${index + 1} of ${job.images.total}`);
  const content = el("div", {}, el("p", { class: "quiet" }, "Loading…"));
  main.replaceChildren(
    el(
      "p",
      { class: "crumbs" },
      el("a", { href: "#/jobs" }, "Jobs"),
      " › ",
      el("a", { href: `#/jobs/${id}` }, job.name ?? "unnamed job"),
    ),
    el("div", { class: "title" }, title, neighbours(job, index, signal)),
    content,
  );
  const image = await get(path("api", "v1", "jobs", id, "images", index), signal);
  const photo = el("img", { alt: `The photo ${image.key}` });
  const [picture, record] = await Promise.allSettled([
    load(photo, id, index, SIDE, signal),
    FOUND.has(image.state) ? get(path("api", "v1", "jobs", id, "images", index, "result"), signal) : null,
  ]);
  if (signal.aborted) return;
  const hasPhoto = picture.status === "fulfilled";
  content.replaceChildren(el("p", { class: "key" }, badge(image.state), " ", image.key));
  if (image.state === "failed")
    content.append(fault({ title: `${sentence(image.errorClass)} error`, message: image.error }));
  if (image.state === "pending") content.append(el("p", {}, "No worker has looked at it yet."));
  if (record.status === "rejected") content.append(fault(record.reason));
  if (!hasPhoto) content.append(fault(Object.assign(picture.reason, { title: "The photo cannot be shown" })));
  if (record.value) content.append(viewer(record.value, photo, hasPhoto));
  else if (hasPhoto) content.append(el("figure", { class: "stage" }, photo));
}

function neighbours(job, index, signal) {
  const address = (to) => (to < 0 || to >= job.images.total ? null : `#/jobs/${job.id}/images/${to}`);
  const link = (to, text, kind) =>
    address(to)
      ? el("a", { href: address(to), rel: kind, class: "button" }, text)
      : el("span", { class: "button off" }, text);
  const turn = (event) => {
    if (event.target.matches("input, select, textarea") || event.altKey || event.ctrlKey || event.metaKey) return;
    const to = { ArrowLeft: index - 1, ArrowRight: index + 1 }[event.key];
    if (to !== undefined && address(to)) location.hash = address(to);
  };
  addEventListener("keydown", turn, { signal });
  return el(
    "nav",
    { class: "neighbours", "aria-label": "Images" },
    link(index - 1, "‹ Previous", "prev"),
    link(index + 1, "Next ›", "next"),
  );
}

/** The photo, what is drawn over it, and the controls. Without a photo, masks are drawn on nothing, as large as it. */
function viewer(record, photo, hasPhoto) {
  const scale = Math.min(1, SIDE / Math.max(record.width, record.height));
  const width = hasPhoto ? photo.naturalWidth : Math.round(record.width * scale);
  const height = hasPhoto ? photo.naturalHeight : Math.round(record.height * scale);
  const canvas = el("canvas", { id: "masks", width, height, "aria-hidden": "true" });
  const overlay = new Overlay(canvas, record.instances);
  const frames = boxes(record);
  const caption = el("figcaption", { "aria-live": "off" });
  const shown = new Set(record.instances.map((one) => one.id));
  const rows = new Map();
  let marked = null;
  let opacity = 0.45;
  let due = false;

  const paint = () => {
    if (due) return; // many changes, one picture
    due = true;
    requestAnimationFrame(() => {
      due = false;
      overlay.paint(shown, shown.has(marked) ? marked : null, opacity);
      for (const { id, node } of frames.all) {
        node.classList.toggle("marked", id === marked);
        node.toggleAttribute("hidden", !shown.has(id));
      }
    });
  };
  const mark = (id) => {
    if (id === marked) return;
    rows.get(marked)?.node.classList.remove("marked");
    marked = id;
    rows.get(id)?.node.classList.add("marked");
    const one = record.instances.find((instance) => instance.id === id);
    say(caption, one ? `${one.label}, score ${one.score.toFixed(2)}` : summary);
    paint();
  };
  const more = record.truncated ? ", there may be more" : "";
  const summary = `${many(record.instances.length, "instance")}${more} · ${record.width} × ${record.height} pixels`;
  say(caption, summary);

  const list = el("ul", { class: "instances", "aria-label": "Instances" });
  for (const one of record.instances) {
    const box = el("input", {
      type: "checkbox",
      checked: true,
      onchange: () => {
        box.checked ? shown.add(one.id) : shown.delete(one.id);
        paint();
      },
      onfocus: () => mark(one.id),
      onblur: () => mark(null),
    });
    const swatch = el("span", { class: "swatch" });
    swatch.style.backgroundColor = `rgb(${colourOf(one.id).join(" ")})`;
    const node = el(
      "li",
      { onmouseenter: () => mark(one.id), onmouseleave: () => mark(null) },
      el(
        "label",
        {},
        box,
        swatch,
        el("span", { class: "label" }, one.label),
        el("span", { class: "score" }, one.score.toFixed(2)),
        el("span", { class: "quiet" }, `${count(one.area)} px`),
      ),
    );
    rows.set(one.id, { node, box });
    list.append(node);
  }
  const all = (on) => {
    for (const [id, { box }] of rows) {
      box.checked = on;
      on ? shown.add(id) : shown.delete(id);
    }
    paint();
  };
  const slider = el("input", {
    type: "range",
    min: 0,
    max: 100,
    value: 45,
    oninput: () => {
      opacity = slider.value / 100;
      paint();
    },
  });
  const boxed = el("input", {
    type: "checkbox",
    checked: true,
    onchange: () => frames.node.toggleAttribute("hidden", !boxed.checked),
  });
  const layers = el(
    "div",
    { class: "layers", onpointermove: (event) => mark(overlay.at(event)), onpointerleave: () => mark(null) },
    hasPhoto ? photo : null,
    canvas,
    frames.node,
  );
  layers.style.maxWidth = `calc(85vh * ${record.width / record.height})`; // all of it is seen at once
  paint();
  const side =
    record.instances.length === 0
      ? el("p", { class: "quiet" }, "Nothing was found that scores high enough.")
      : el(
          "div",
          { class: "side" },
          el("h2", {}, "Instances"),
          el(
            "div",
            { class: "actions" },
            el("button", { type: "button", onclick: () => all(true) }, "Show all"),
            el("button", { type: "button", onclick: () => all(false) }, "Hide all"),
          ),
          el("label", { class: "line" }, "Opacity of the masks ", slider),
          el("label", { class: "line" }, boxed, " Boxes"),
          list,
        );
  return el("div", { class: "viewer" }, el("figure", { class: "stage" }, layers, caption), side);
}

/** The boxes as lines that stay thin at any size. */
function boxes(record) {
  const all = record.instances.map((one) => {
    const [x, y, width, height] = one.bbox;
    return { id: one.id, node: svg("rect", { x, y, width, height, stroke: `rgb(${colourOf(one.id).join(" ")})` }) };
  });
  const node = svg(
    "svg",
    { viewBox: `0 0 ${record.width} ${record.height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    all.map((one) => one.node).reverse(),
  );
  return { node, all };
}
