// Which rows are wanted? A form whose answers are kept in the page's address: they can be linked, and gone back to.

import { el } from "./dom.js";
import { reach } from "./session.js";

/** A form above a list. fields: of `choice`, `text` or `tenantField`; page: the address that they are added to. */
export function filterForm(page, query, fields) {
  const form = el("form", { class: "filters", role: "search" }, fields, el("button", { type: "submit" }, "Show"));
  for (const field of form.querySelectorAll("[name]")) field.value = query.get(field.name) ?? "";
  const go = (event) => {
    event.preventDefault();
    const given = [...new FormData(form)]
      .filter(([, value]) => value.trim() !== "")
      .map(([name, value]) => [name, value.trim()]);
    location.hash = given.length ? `${page}?${new URLSearchParams(given)}` : page;
  };
  form.addEventListener("submit", go);
  return form;
}

/** One of several. options: [value, text]. */
export function choice(name, label, options) {
  return el(
    "label",
    {},
    label,
    el(
      "select",
      { name },
      options.map(([value, text]) => el("option", { value }, text)),
    ),
  );
}

export function text(name, label, hint) {
  return el(
    "label",
    {},
    label,
    el("input", { name, placeholder: hint, autocomplete: "off", spellcheck: "false", size: 14 }),
  );
}

/** The tenant: any name, since roles of Kubernetes may let somebody see tenants that it is not at home in. */
export function tenantField() {
  return text("tenant", "Tenant", reach());
}

/** Forwards through a list by its cursor, and back by the browser or to the start. */
export function pager(page, query, nextCursor, what) {
  const to = (cursor) => {
    const wanted = new URLSearchParams(query);
    wanted.delete("cursor");
    if (cursor) wanted.set("cursor", cursor);
    return `#${page}${wanted.size ? `?${wanted}` : ""}`;
  };
  const hidden = !query.get("cursor") && !nextCursor;
  return el(
    "nav",
    { class: "pager", "aria-label": `Pages of ${what}`, hidden },
    query.get("cursor") ? el("a", { href: to(null) }, "To the start") : null,
    nextCursor ? el("a", { href: to(nextCursor), rel: "next" }, "Next page") : null,
  );
}
