// Who is signed in, and what may they do? What a caller may not do is not offered; the server refuses it anyway.

import { asking, get } from "./api.js";

let me = null;

/** Ask the API who the token's owner is. */
export async function recognise(signal) {
  me = await get("/api/v1/me", signal);
  return me;
}

export function forget() {
  me = null;
}

/** Whom a list without a tenant is about, in words. */
export function reach() {
  return me.everywhere.includes("list") ? "all" : (me.tenants ?? []).join(", ");
}

export function known() {
  return me;
}

/** Ask what the caller may do in a tenant that is none of its own: roles of Kubernetes know neither beforehand. */
export async function learn(tenant, signal) {
  if (!tenant || me.verbs[tenant]) return;
  me = { ...me, verbs: { ...me.verbs, ...(await get(asking("/api/v1/me", { tenant }), signal)).verbs } };
}

/** Whether the caller may do this in a tenant; without one: over all. */
export function may(verb, tenant) {
  return Boolean(me?.everywhere.includes(verb) || (tenant && me?.verbs[tenant]?.includes(verb)));
}
