// Which images does a job have, and what became of each? A page of them as pictures with their masks, or as a list with
// reasons. While the job runs, the page that is seen is brought up to date, at most each few seconds.

import { get, getPage, path } from "./api.js";
import { el, fault, keyed, say, slot, table } from "./dom.js";
import { choice, filterForm, pager } from "./filters.js";
import { Overlay } from "./overlay.js";
import { inTurn, load } from "./photo.js";
import { TERMINAL, badge, many, plain, time } from "./words.js";

const LIMIT = 24;
const LEAST_REST_MS = 2000;
const SIDE = 320; // pixels of a small picture
const COLUMNS = [["Image", "wide"], ["State"], ["What was found", "wide"], ["Size"], ["Ended"]];

/** {node, jobChanged(job)} */
export function gallery(job, query, signal) {
  const page = `/jobs/${job.id}`;
  const asList = query.get("view") === "list";
  const content = slot();
  const trouble = el("div");
  const form = filterForm(page, query, [
    choice("state", "Images", [
      ["", "all"],
      ["done", "done"],
      ["failed", "failed"],
      ["skipped", "unchanged"],
      ["pending", "pending"],
    ]),
    choice("view", "Show as", [
      ["", "pictures"],
      ["list", "list"],
    ]),
  ]);
  const pages = el("div");
  const shown = asList ? listOf(job) : gridOf(job, signal);
  const address = `${path("api", "v1", "jobs", job.id)}/images`;
  const wanted = { state: query.get("state"), cursor: query.get("cursor"), limit: LIMIT };

  const update = async () => {
    try {
      const { items, nextCursor } = await getPage(address, wanted, signal);
      trouble.replaceChildren();
      pages.replaceChildren(pager(page, query, nextCursor, "images"));
      if (items.length === 0) return content.show(el("p", { class: "quiet" }, empty(job, query)), pages);
      keyed(shown.body, items, (image) => image.index, shown.make);
      if (!shown.node.isConnected) content.show(shown.node, pages);
    } catch (error) {
      if (!signal.aborted) trouble.replaceChildren(fault(error));
    }
  };

  let seen = null;
  let timer = null;
  const jobChanged = (now) => {
    job = now;
    const key = JSON.stringify([now.images, TERMINAL.has(now.state)]);
    if (key === seen || timer) return;
    const wait = seen === null ? 0 : LEAST_REST_MS;
    seen = key;
    timer = setTimeout(async () => {
      timer = null;
      seen = JSON.stringify([job.images, TERMINAL.has(job.state)]);
      await update();
    }, wait);
  };
  signal.addEventListener("abort", () => clearTimeout(timer));
  return {
    node: el(
      "section",
      { "aria-labelledby": "images" },
      el("h2", { id: "images" }, "Images"),
      form,
      trouble,
      content.node,
    ),
    jobChanged,
  };
}

function empty(job, query) {
  if (query.get("state")) return "No image is in this state.";
  return TERMINAL.has(job.state) ? "It has no images." : "Its images are still being listed.";
}

function found(image) {
  if (image.state === "failed") return `${plain(image.errorClass)} error: ${image.error ?? "no error was told"}`;
  if (image.state === "pending") return "not yet looked at";
  return (
    many(image.instances ?? 0, "instance") +
    (image.truncated ? " or more" : "") +
    (image.state === "skipped" ? ", as before" : "")
  );
}

function listOf(job) {
  const { node, body, row } = table("Images in input order", COLUMNS);
  const make = () => {
    const link = el("a");
    const [state, result, size, ended] = [el("span"), el("span", { class: "why" }), el("span"), el("span")];
    const update = (image) => {
      link.href = `#/jobs/${job.id}/images/${image.index}`;
      say(link, image.key);
      if (state.textContent !== image.state) state.replaceChildren(badge(image.state));
      say(result, found(image));
      say(size, image.width ? `${image.width} × ${image.height}` : "–");
      ended.replaceChildren(time(image.finishedAt));
    };
    return { node: row([link, state, result, size, ended]), update };
  };
  return { node, body, make };
}

function gridOf(job, signal) {
  const body = el("ul", { class: "grid" });
  const watch = new IntersectionObserver(
    (entries) => {
      for (const entry of entries.filter((one) => one.isIntersecting)) {
        watch.unobserve(entry.target);
        entry.target.draw();
      }
    },
    { rootMargin: "200px" },
  );
  signal.addEventListener("abort", () => watch.disconnect());
  const make = () => {
    const link = el("a", { class: "picture" });
    const frame = el("div", { class: "frame" });
    const [name, state, result] = [el("span", { class: "name" }), el("span"), el("span", { class: "quiet why" })];
    link.append(frame, name);
    const node = el("li", {}, link, el("div", { class: "under" }, state, result));
    const update = (image) => {
      link.href = `#/jobs/${job.id}/images/${image.index}`;
      link.title = image.key;
      say(name, image.key);
      say(result, found(image));
      if (state.textContent === image.state) return;
      state.replaceChildren(badge(image.state));
      frame.draw = () => thumbnail(frame, job.id, image, signal);
      watch.observe(frame);
    };
    return { node, update };
  };
  return { node: body, body, make };
}

/** A small photo, and its masks where it has any. A photo that cannot be shown is no fault of the page. */
async function thumbnail(frame, jobId, image, signal) {
  const photo = frame.querySelector("img") ?? el("img", { alt: "" });
  try {
    if (!photo.src) await load(photo, jobId, image.index, SIDE, signal);
    frame.replaceChildren(photo);
    if (!image.instances) return;
    const record = await inTurn(() =>
      get(`${path("api", "v1", "jobs", jobId, "images", image.index, "result")}`, signal),
    );
    const canvas = el("canvas", { width: photo.naturalWidth, height: photo.naturalHeight, "aria-hidden": "true" });
    new Overlay(canvas, record.instances).paint(new Set(record.instances.map((one) => one.id)), null, 0.45);
    frame.append(canvas);
  } catch (error) {
    if (!signal.aborted && !photo.src) frame.replaceChildren(el("span", { class: "quiet" }, "no picture"));
  }
}
