// How are states, counts and times said? In one place, so that the same thing is called the same everywhere.

import { el } from "./dom.js";

export const TERMINAL = new Set(["succeeded", "failed", "cancelled"]);

const SHORT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const NUMBER = new Intl.NumberFormat(undefined);

/** A state as a word in a box; the colour only repeats it. */
export function badge(state) {
  return el("span", { class: `badge ${state}` }, state);
}

/** A time in the reader's zone; UTC is in its title. exact: to the second. */
export function time(text, exact = false) {
  if (!text) return el("span", { class: "quiet" }, "–");
  const at = new Date(text);
  return el("time", { datetime: text, title: utc(at) }, (exact ? EXACT : SHORT).format(at));
}

export function utc(at) {
  return `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

export function clock(at) {
  return CLOCK.format(at);
}

export function count(number) {
  return NUMBER.format(number);
}

/** `1 image`, `2 images`. */
export function many(number, what) {
  return `${count(number)} ${what}${number === 1 ? "" : "s"}`;
}

/** Seconds as somebody would say them. */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

/** A name of the API in words: `NoWorker` → `no worker`, `inside_box` → `inside box`. */
export function plain(name) {
  return (name ?? "")
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .replaceAll("_", " ")
    .toLowerCase();
}

/** How far a job is, in a line. */
export function progress(images) {
  const told = [`${count(images.done)} of ${many(images.total, "image")} done`];
  if (images.skipped) told.push(`${count(images.skipped)} unchanged`);
  if (images.failed) told.push(`${count(images.failed)} failed`);
  return told.join(", ");
}

/** The state of a job in a sentence: why it waits, what it does, how it ended. */
export function condition(job) {
  switch (job.state) {
    case "failed":
      return `${sentence(job.error ?? "it failed, and no error was told")} (${plain(job.reason)}).`;
    case "cancelled":
      return `Cancelled (${plain(job.reason)}). What was done until then stays.`;
    case "succeeded":
      return job.images.failed ? "Finished, but some images failed." : "Finished.";
    case "suspended":
      return "Suspended until somebody resumes it.";
    case "running":
      return "Workers are at it.";
    default:
      return job.why ? `${sentence(job.why.message)}.` : "Waits for its turn.";
  }
}

/** With a capital letter, and without the stop that follows it. */
export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1).replace(/\.$/, "");
}
