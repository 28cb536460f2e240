// Which jobs are there, how far are they, and why do they wait? A page of them, asked for again each few seconds.

import { get, getPage, path, repeat } from "./api.js";
import { el, fault, keyed, say, slot, table } from "./dom.js";
import { choice, filterForm, pager, tenantField, text } from "./filters.js";
import { inTurn } from "./photo.js";
import { progressBar } from "./progress.js";
import { badge, condition, time } from "./words.js";

const EVERY_S = 3;
const WHY_MS = 9000;
const LIMIT = 25;
const STATES = ["queued", "running", "suspended", "succeeded", "failed", "cancelled"];
const COLUMNS = [["Job", "wide"], ["State", "wide"], ["Progress", "wide"], ["Tenant"], ["Region"], ["Submitted"]];

export async function jobsView(main, { query, signal }) {
  const list = slot();
  const trouble = el("div");
  const form = filterForm("/jobs", query, [
    choice("state", "State", [["", "all"], ["active", "not ended"], ...STATES.map((state) => [state, state])]),
    tenantField(),
    text("region", "Region", "all"),
  ]);
  main.replaceChildren(el("h1", { tabindex: "-1" }, "Jobs"), form, trouble, list.node);
  const { node, body, row } = table("Jobs, newest first", COLUMNS);
  const state = query.get("state");
  const wanted = {
    tenant: query.get("tenant"),
    region: query.get("region"),
    state: state === "active" ? null : state,
    active: state === "active" ? "true" : null,
    cursor: query.get("cursor"),
    limit: LIMIT,
  };
  const pages = el("div");
  const update = async () => {
    const { items, nextCursor } = await getPage("/api/v1/jobs", wanted, signal);
    trouble.replaceChildren();
    pages.replaceChildren(pager("/jobs", query, nextCursor, "jobs"));
    if (items.length === 0)
      return list.show(
        el(
          "p",
          { class: "quiet" },
          query.size ? "No job fits." : "There are no jobs yet: submit one, and it appears here.",
        ),
        pages,
      );
    keyed(
      body,
      items,
      (job) => job.id,
      () => jobRow(row, signal),
    );
    if (!node.isConnected) list.show(node, pages);
  };
  const failed = (error) => {
    trouble.replaceChildren(fault(error));
    if (!node.isConnected) list.show();
  };
  repeat(EVERY_S, signal, update, failed);
}

function jobRow(row, signal) {
  const link = el("a");
  const id = el("code", { class: "quiet" });
  const state = el("div");
  const why = el("div", { class: "quiet why brief" });
  const bar = progressBar("Images");
  const tenant = el("span");
  const region = el("span");
  const submitted = el("span");
  const node = row([[link, " ", id], [state, why], bar.node, tenant, region, submitted]);
  // A list does not tell why its jobs wait, which costs the server more than all the rest of it.
  let asked = -Infinity;
  const askWhy = async (job) => {
    if (performance.now() - asked < WHY_MS) return;
    asked = performance.now();
    const now = await inTurn(() => get(path("api", "v1", "jobs", job.id), signal)).catch(() => null);
    if (now) say(why, now.state === "queued" ? condition(now) : "");
  };
  const update = (job) => {
    link.href = `#/jobs/${job.id}`;
    say(link, job.name ?? "unnamed");
    say(id, job.id.slice(0, 8));
    if (state.textContent !== job.state) state.replaceChildren(badge(job.state));
    if (job.state === "queued") askWhy(job);
    else say(why, job.state === "running" || job.state === "succeeded" ? "" : condition(job));
    bar.update(job.images);
    say(tenant, job.tenant);
    say(region, job.region);
    if (!submitted.hasChildNodes()) submitted.append(time(job.createdAt));
  };
  return { node, update };
}
