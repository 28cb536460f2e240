// How does the page speak to the API? Each request carries the caller's token in a header: no cookie is ever set, so no
// other site can act for the caller. The token lives as long as the tab.

const KEY = "samjobs-token";

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

/** An answer that is no success (RFC 9457), or none at all (status 0). */
export class Problem extends Error {
  constructor(status, title, detail, errors = []) {
    super(detail || title);
    Object.assign(this, { status, title, errors });
  }
}

/** A path below the API's root, each part escaped. */
export function path(...parts) {
  return "/" + parts.map((part) => encodeURIComponent(part)).join("/");
}

/** A path with a query; what is empty is left out. */
export function asking(base, query) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${base}?${new URLSearchParams(given)}` : base;
}

export async function get(address, signal) {
  return (await send("GET", address, { signal })).json();
}

const LOOKS = 20;

/** A page of a list. With a filter the server may answer few rows, or none, and a cursor: then it is asked further. */
export async function getPage(base, query, signal) {
  let page = await get(asking(base, query), signal);
  for (let look = 1; page.items.length === 0 && page.nextCursor && look < LOOKS; look++) {
    page = await get(asking(base, { ...query, cursor: page.nextCursor }), signal);
  }
  return page;
}

export async function post(address, body) {
  return (await send("POST", address, body ? { body: JSON.stringify(body) } : {})).json();
}

export async function blob(address, signal) {
  return (await send("GET", address, { signal, cache: "default" })).blob();
}

async function send(method, address, options = {}) {
  const headers = { Authorization: `Bearer ${token.get()}`, Accept: "application/json, image/jpeg, text/event-stream" };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(address, { method, headers, cache: "no-cache", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "No answer", "The server does not answer: is it running, and are you online?");
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  if (answer.status === 401) {
    token.forget();
    dispatchEvent(new CustomEvent("signed-out", { detail: told.detail }));
  }
  throw new Problem(answer.status, told.title ?? `Status ${answer.status}`, told.detail, told.errors);
}

/** The events of a server-sent stream, as {event, data}: EventSource cannot send a token. Ends when the server ends. */
export async function* stream(address, signal) {
  const answer = await send("GET", address, { signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  while (true) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).replace(/\r\n?/g, "\n").split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const found = parse(block);
      if (found) yield found;
    }
  }
}

function parse(block) {
  let event = "message";
  const data = [];
  for (const line of block.split("\n")) {
    const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line);
    if (name === "event") event = value;
    if (name === "data") data.push(value);
  }
  return event !== "message" || data.length ? { event, data: data.length ? JSON.parse(data.join("\n")) : null } : null;
}

/** Wait, unless the view is left meanwhile. */
export function rest(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("left", "AbortError"));
    });
  });
}

/**
 * Do something now and again each so many seconds until the view is left. A page that nobody sees asks for nothing.
 * What fails is told to `failed`, and tried again.
 */
export async function repeat(seconds, signal, work, failed) {
  while (!signal.aborted) {
    if (!document.hidden) {
      try {
        await work();
      } catch (error) {
        if (signal.aborted || error.status === 401) return;
        failed(error);
      }
    }
    await rest(seconds, signal).catch(() => {});
  }
}
