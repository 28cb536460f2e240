// Who works, and why are there as many? Pools with the scaler's own reason, and each worker that is alive.

import { get, repeat } from "./api.js";
import { el, fault, table } from "./dom.js";
import { badge, count, plain, time } from "./words.js";

const EVERY_S = 5;

export async function workersView(main, { signal }) {
  const trouble = el("div");
  const pools = el("div", {}, el("p", { class: "quiet" }, "Loading…"));
  const workers = el("div");
  main.replaceChildren(
    el("h1", { tabindex: "-1" }, "Workers"),
    trouble,
    el("h2", {}, "Pools"),
    pools,
    el("h2", {}, "Workers alive"),
    workers,
  );
  const update = async () => {
    const [poolList, workerList] = await Promise.all([get("/api/v1/pools", signal), get("/api/v1/workers", signal)]);
    trouble.replaceChildren();
    pools.replaceChildren(poolTable(poolList.items));
    workers.replaceChildren(workerTable(workerList.items));
  };
  repeat(EVERY_S, signal, update, (error) => trouble.replaceChildren(fault(error)));
}

function poolTable(items) {
  if (items.length === 0)
    return el("p", { class: "quiet" }, "There are no pools: outside Kubernetes, workers are started by hand.");
  const { node, body, row } = table("Pools of equal workers", [
    ["Pool", "wide"],
    ["Region"],
    ["Engine"],
    ["Ready"],
    ["Busy"],
    ["Why as many", "wide"],
    ["Decided"],
  ]);
  body.append(
    ...items.map((pool) =>
      row([
        `${pool.namespace}/${pool.name}`,
        pool.region,
        pool.engine,
        `${count(pool.ready)} of ${count(pool.desired)}`,
        count(pool.busy),
        [el("strong", {}, plain(pool.reason)), el("div", { class: "why" }, pool.message)],
        time(pool.updatedAt, true),
      ]),
    ),
  );
  return node;
}

function workerTable(items) {
  if (items.length === 0) return el("p", { class: "quiet" }, "No worker is alive.");
  const { node, body, row } = table("Workers that were heard of lately", [
    ["Worker", "wide"],
    ["State"],
    ["Region"],
    ["Pool"],
    ["Device"],
    ["Model", "wide"],
    ["Images"],
    ["Last heard of"],
  ]);
  body.append(
    ...items.map((worker) =>
      row([
        worker.pod ?? `${worker.node}, process ${worker.pid}`,
        badge(worker.state),
        worker.region,
        worker.pool,
        worker.device || "–",
        [worker.model, worker.revision].filter(Boolean).join(" ") || "–",
        count(worker.imagesTotal),
        time(worker.heartbeatAt, true),
      ]),
    ),
  );
  return node;
}
