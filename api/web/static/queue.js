// What waits, what runs, and how did that change? Counts by region, and for those who run the place the last hour.

import { asking, get, repeat } from "./api.js";
import { chart } from "./chart.js";
import { el, fault, table } from "./dom.js";
import { filterForm, tenantField, text } from "./filters.js";
import { may } from "./session.js";
import { badge, count, span } from "./words.js";

const EVERY_S = 5;
const SHARDS = [
  { key: "due", label: "due", kind: "one" },
  { key: "dispatched", label: "sent out", kind: "two" },
  { key: "running", label: "running", kind: "three" },
  { key: "dead", label: "dead", kind: "four" },
];
const WORKERS = [
  { key: "workers", label: "alive", kind: "one" },
  { key: "busy", label: "busy", kind: "three" },
];

export async function queueView(main, { query, signal }) {
  const admin = may("admin");
  const trouble = el("div");
  const jobs = el("p", { class: "counts" });
  const regions = el("div", {}, el("p", { class: "quiet" }, "Loading…"));
  const charts = el("div", { class: "charts" });
  const field = admin ? text("region", "Region of the charts", "all") : tenantField();
  main.replaceChildren(
    el("h1", { tabindex: "-1" }, "Queue"),
    trouble,
    jobs,
    regions,
    filterForm("/queue", query, [field]),
    charts,
  );

  const update = async () => {
    const status = await get(asking("/queue/status", { tenant: admin ? null : query.get("tenant") }), signal);
    trouble.replaceChildren();
    jobs.replaceChildren(...counts(status.jobs));
    regions.replaceChildren(regionTable(status.regions));
    if (!admin) return;
    const { samples } = await get(asking("/queue/history", { region: query.get("region") }), signal);
    draw(charts, samples);
  };
  addEventListener("resize", () => charts.last && draw(charts, charts.last), { signal });
  repeat(EVERY_S, signal, update, (error) => trouble.replaceChildren(fault(error)));
}

function counts(jobs) {
  const told = Object.entries(jobs);
  if (told.length === 0) return ["No job is active."];
  return told.map(([state, number]) => el("span", {}, badge(state), ` ${count(number)} `));
}

function regionTable(regions) {
  if (regions.length === 0) return el("p", { class: "quiet" }, "Nothing waits, nothing runs, and no worker is alive.");
  const staffed = regions.some((region) => region.workers);
  const columns = [
    ["Region", "wide"],
    ["Due"],
    ["Oldest due"],
    ["Waiting for their time"],
    ["Held"],
    ["Sent out"],
    ["Running"],
    ["Dead"],
  ];
  if (staffed) columns.push(["Workers", "wide"]);
  const { node, body, row } = table("Shards by region", columns);
  body.append(
    ...regions.map((region) => {
      const cells = [
        region.region,
        count(region.due),
        span(region.oldestDueAgeSeconds),
        count(region.waiting),
        count(region.held),
        count(region.dispatched),
        count(region.running),
        count(region.dead),
      ];
      if (staffed) cells.push(staff(region.workers));
      return row(cells);
    }),
  );
  return node;
}

function staff(workers) {
  const told = Object.entries(workers ?? {})
    .filter(([, number]) => number > 0)
    .map(([state, number]) => `${number} ${state}`);
  return told.join(", ") || "none";
}

function draw(place, samples) {
  place.last = samples;
  if (!samples?.length) {
    place.replaceChildren(el("p", { class: "quiet" }, "The history begins with the first sample, in a few seconds."));
    return;
  }
  const open = [...place.querySelectorAll("details")].map((one) => one.open);
  const width = Math.max(280, Math.min(720, Math.floor(place.clientWidth / (place.clientWidth > 900 ? 2 : 1)) - 48));
  place.replaceChildren(
    ...[
      ["Shards over time", SHARDS],
      ["Workers over time", WORKERS],
    ].map(([title, series]) => el("div", { class: "card" }, chart(title, series, samples, width))),
  );
  place.querySelectorAll("details").forEach((one, which) => (one.open = open[which] ?? false));
}
