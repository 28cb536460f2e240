// What waits for a person? Shards whose failures are used up, by job: each can be tried again, or given up.

import { getPage, post } from "./api.js";
import { actionButton, confirmed } from "./dialog.js";
import { announce, el, fault, slot, table } from "./dom.js";
import { filterForm, pager, tenantField } from "./filters.js";
import { learn, may } from "./session.js";
import { count, many, plain, time } from "./words.js";

const LIMIT = 50;

export async function deadView(main, { query, signal }) {
  const list = slot();
  const trouble = el("div");
  main.replaceChildren(
    el("h1", { tabindex: "-1" }, "Dead list"),
    el(
      "p",
      { class: "quiet" },
      "Shards that failed too often, or in a way that trying again does not help. " +
        "Once the cause is gone, retry them; purge what nobody needs.",
    ),
    filterForm("/dead", query, [tenantField()]),
    trouble,
    list.node,
  );
  const failed = (error) => trouble.replaceChildren(fault(error));
  const update = async () => {
    const wanted = { tenant: query.get("tenant"), cursor: query.get("cursor"), limit: LIMIT };
    const { items, nextCursor } = await getPage("/admin/queue-dead", wanted, signal);
    if (items.length === 0) return list.show(el("p", { class: "quiet" }, "No shard is dead."));
    for (const tenant of new Set(items.map((shard) => shard.tenant))) await learn(tenant, signal);
    const groups = [...Map.groupBy(items, (shard) => shard.jobId).values()];
    list.show(...groups.map((shards) => group(shards, act, failed)), pager("/dead", query, nextCursor, "dead shards"));
  };
  const act = async (verb, jobIds) => {
    trouble.replaceChildren();
    const done = await post(`/admin/queue-dead/${verb}`, { jobIds });
    announce(`${many(done.shards, "shard")} ${verb === "retry" ? "put back to work" : "purged"}.`);
    await update();
    if (done.refused.length > 0) {
      failed({ title: "Left as it is", message: done.refused.map((one) => one.detail).join(" ") });
    }
    main.querySelector("h1").focus(); // the button that had the focus is gone
  };
  try {
    await update();
  } catch (error) {
    list.show();
    failed(error);
  }
}

function group(shards, act, failed) {
  const { jobId, tenant } = shards[0];
  const name = shards[0].jobName ?? "Unnamed job";
  const purge = async () => {
    const sure = await confirmed(
      `Purge the dead shards of ${name}?`,
      "All of them, with their images: they can no longer be retried, only submitted anew.",
      "Purge",
    );
    if (sure) await act("purge", [jobId]);
  };
  const { node, body, row } = table(`Dead shards of ${name}`, [
    ["Shard"],
    ["Images"],
    ["Failures"],
    ["Error", "wide"],
    ["Died"],
  ]);
  body.append(
    ...shards.map((shard) =>
      row([
        count(shard.index),
        count(shard.images),
        count(shard.failures),
        el("span", { class: "why" }, `${plain(shard.errorClass)}: ${shard.error ?? "no error was told"}`),
        time(shard.finishedAt),
      ]),
    ),
  );
  return el(
    "section",
    { class: "card" },
    el(
      "div",
      { class: "title" },
      el("h2", {}, el("a", { href: `#/jobs/${jobId}` }, name), " ", el("span", { class: "quiet" }, tenant)),
      el(
        "div",
        { class: "actions" },
        may("retry", tenant) ? actionButton("Retry", () => act("retry", [jobId]), failed, "primary") : null,
        may("purge", tenant) ? actionButton("Purge…", purge, failed, "danger") : null,
      ),
    ),
    node,
  );
}
