// How far is a job? A bar of its images by outcome, and the same in words.

import { el, say } from "./dom.js";
import { progress } from "./words.js";

/** {node, update(images)} */
export function progressBar(label) {
  const parts = ["done", "skipped", "failed"].map((outcome) => ({ outcome, node: el("span", { class: outcome }) }));
  const bar = el(
    "div",
    { class: "bar", role: "progressbar", "aria-label": label, "aria-valuemin": 0 },
    parts.map((part) => part.node),
  );
  const words = el("span", { class: "told" });
  const update = (images) => {
    for (const { outcome, node } of parts)
      node.style.width = `${images.total ? (100 * images[outcome]) / images.total : 0}%`;
    bar.setAttribute("aria-valuemax", images.total);
    bar.setAttribute("aria-valuenow", images.done + images.skipped + images.failed);
    bar.setAttribute("aria-valuetext", progress(images));
    say(words, progress(images));
  };
  return { node: el("div", { class: "progress" }, bar, words), update };
}
