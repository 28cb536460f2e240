// What becomes of one job? Its progress as it happens, what may be done to it, its images and its history.

import { asking, get, path, post, repeat, rest, stream } from "./api.js";
import { actionButton, confirmed } from "./dialog.js";
import { announce, el, fault, say, table } from "./dom.js";
import { gallery } from "./gallery.js";
import { progressBar } from "./progress.js";
import { learn, may } from "./session.js";
import { TERMINAL, badge, condition, many, plain, progress, time } from "./words.js";

const AGAIN_S = 2; // before a broken stream is asked for again
const WHY_S = 5; // why a job waits changes with others' jobs, of which its own events tell nothing

export async function jobView(main, { parameters: [id], query, signal }) {
  const address = path("api", "v1", "jobs", id);
  const first = await get(address, signal);
  await learn(first.tenant, signal);
  const head = header(first);
  const trouble = el("div");
  const actions = el("div", { class: "actions" });
  const pictures = gallery(first, query, signal);
  main.replaceChildren(head.node, trouble, actions, facts(first), pictures.node, history(address, signal));

  let job = null;
  const failed = (error) => trouble.replaceChildren(fault(error));
  const act = async (verb, body) => {
    trouble.replaceChildren();
    const answer = await post(`${address}/${verb}`, body);
    seen(answer.job);
    if (!answer.changed) announce("Nothing had to be changed.");
    follow();
  };
  const seen = (now) => {
    const before = job;
    if (before && new Date(now.updatedAt) < new Date(before.updatedAt)) return; // an answer that was overtaken
    job = { ...now, why: now.why ?? (before?.state === now.state ? before.why : null) };
    head.update(job);
    if (before && before.state !== job.state) announce(`The job is ${job.state}: ${progress(job.images)}.`);
    offer(actions, job, act, failed);
    pictures.jobChanged(job);
  };
  let following = false;
  const follow = async () => {
    if (following || TERMINAL.has(job.state)) return;
    following = true;
    await followed(address, signal, seen, failed, () => trouble.replaceChildren());
    following = false;
  };
  seen(first);
  follow();
  repeat(
    WHY_S,
    signal,
    async () => {
      if (job.state === "queued") seen(await get(address, signal));
    },
    failed,
  );
}

/** Tell each change until the job ends, also over streams that break. */
async function followed(address, signal, seen, failed, well) {
  let ended = false;
  while (!ended && !signal.aborted) {
    const hidden = untilHidden(signal);
    try {
      for await (const { event, data } of stream(`${address}/progress`, AbortSignal.any([signal, hidden]))) {
        well();
        if (event === "job") seen(data);
        ended ||= event === "end";
      }
      if (!ended) await rest(AGAIN_S, signal);
    } catch (error) {
      if (signal.aborted || error.status === 401) return;
      if (hidden.aborted) {
        await untilSeen(signal);
        continue;
      }
      failed(
        error.status === undefined
          ? Object.assign(new Error("Trying again…"), { title: "The connection broke" })
          : error,
      );
      await rest(AGAIN_S, signal).catch(() => {});
    }
  }
}

/** Browsers keep few connections to one server: a tab that nobody sees must not hold one of them. */
function untilHidden(signal) {
  const hidden = new AbortController();
  const look = () => document.hidden && hidden.abort();
  document.addEventListener("visibilitychange", look, { signal });
  look();
  return hidden.signal;
}

function untilSeen(signal) {
  return new Promise((resolve) => {
    const look = () => (!document.hidden || signal.aborted) && resolve();
    document.addEventListener("visibilitychange", look, { signal });
    signal.addEventListener("abort", look);
    look();
  });
}

function header(job) {
  const state = el("span");
  const words = el("p", { class: "condition" });
  const bar = progressBar("Images of this job");
  const shards = el("p", { class: "quiet" });
  const node = el(
    "div",
    { class: "head" },
    el("p", { class: "crumbs" }, el("a", { href: "#/jobs" }, "Jobs")),
    el("h1", { tabindex: "-1" }, job.name ?? "Unnamed job", " ", state),
    words,
    bar.node,
    shards,
  );
  const update = (now) => {
    if (state.textContent !== now.state) state.replaceChildren(badge(now.state));
    say(words, condition(now));
    bar.update(now.images);
    const dead = now.shards.dead ? `, ${now.shards.dead} dead` : "";
    say(shards, `${now.shards.done} of ${many(now.shards.total, "shard")} finished${dead}`);
  };
  return { node, update };
}

/** The buttons that mean something now and that the caller may press. */
function offer(place, job, act, failed) {
  const active = !TERMINAL.has(job.state);
  const wanted = [];
  const update = may("update", job.tenant);
  if (update && active && !job.suspend) wanted.push(["suspend", "Suspend"]);
  if (update && job.suspend && active) wanted.push(["resume", "Resume", "primary"]);
  const again = may("retry", job.tenant) && job.state !== "cancelled";
  if (again && job.images.failed)
    wanted.push(["retry", `Retry ${many(job.images.failed, "failed image")}`, "primary", { what: "all" }]);
  else if (again && job.shards.dead)
    wanted.push(["retry", `Retry ${many(job.shards.dead, "dead shard")}`, "primary", { what: "dead" }]);
  if (may("purge", job.tenant) && job.shards.dead)
    wanted.push(["purge", `Purge ${many(job.shards.dead, "dead shard")}…`, "danger", {}, ask.purge]);
  if (update && active) wanted.push(["cancel", "Cancel…", "danger", {}, ask.cancel]);
  const key = JSON.stringify(wanted);
  if (place.dataset.offered === key) return; // a button that is being pressed stays
  place.dataset.offered = key;
  place.replaceChildren(
    ...wanted.map(([verb, text, kind, body, first]) =>
      actionButton(
        text,
        async () => {
          if (!first || (await first(job))) await act(verb, body);
        },
        failed,
        kind,
      ),
    ),
  );
}

const ask = {
  cancel: (job) =>
    confirmed(
      `Cancel ${job.name ?? "this job"}?`,
      "Images that are not done yet will not be segmented, and a cancelled job cannot be resumed. " +
        "Results that are written stay.",
      "Cancel the job",
    ),
  purge: (job) =>
    confirmed(
      `Purge ${many(job.shards.dead, "dead shard")}?`,
      "Their images are given up: they can no longer be retried, only submitted anew.",
      "Purge",
    ),
};

function facts(job) {
  const phrases = (job.spec?.prompts?.text ?? []).map((one) => one.text ?? one).join(", ");
  const rows = [
    ["Looks for", phrases],
    ["Mode", plain(job.mode)],
    ["Engine", job.engine],
    ["Tenant", job.tenant],
    ["Region", job.region],
    ["Priority", job.priority],
    ["Results", job.outputUri],
    ["Submitted", time(job.createdAt)],
    ["Started", job.startedAt && time(job.startedAt)],
    ["Ended", job.finishedAt && time(job.finishedAt)],
    ["Forgotten after", job.expiresAt && time(job.expiresAt)],
    ["Id", el("code", {}, job.id)],
  ].filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el(
    "details",
    { class: "card" },
    el("summary", {}, "About this job"),
    el(
      "dl",
      {},
      rows.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
    ),
    job.spec
      ? el(
          "details",
          {},
          el("summary", {}, "The whole spec"),
          el("pre", { tabindex: "0" }, JSON.stringify(job.spec, null, 2)),
        )
      : null,
  );
}

/** What happened to it, asked for when it is opened. */
function history(address, signal) {
  const place = el("div");
  const opened = async () => {
    if (!node.open) return;
    const {
      node: shown,
      body,
      row,
    } = table("Oldest first", [["When"], ["What", "whole"], ["From → to", "whole"], ["Why", "wide"], ["By", "wide"]]);
    const more = el("div", { class: "actions" });
    place.replaceChildren(shown, more);
    await load(body, row, more, 0);
  };
  const failed = (error) => signal.aborted || place.append(fault(error));
  const load = async (body, row, more, after) => {
    try {
      const { items, nextAfter } = await get(asking(`${address}/history`, { after, limit: 100 }), signal);
      const what = (event) => event.subject + (event.imageIndex === null ? "" : ` ${event.imageIndex}`);
      body.append(
        ...items.map((event) =>
          row([
            time(event.at, true),
            what(event),
            `${event.fromState ?? "new"} → ${event.toState}`,
            plain(event.reason) + (event.message ? `: ${event.message}` : ""),
            event.actor,
          ]),
        ),
      );
      const next = () => load(body, row, more, nextAfter);
      more.replaceChildren(...(nextAfter === null ? [] : [actionButton("Show more", next, failed)]));
    } catch (error) {
      failed(error);
    }
  };
  const node = el("details", { class: "card", ontoggle: opened }, el("summary", {}, "History"), place);
  return node;
}
