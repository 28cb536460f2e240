// How does a photo come here? By fetch, since an <img> cannot send a token; few at a time, since the server decodes
// each; and its memory is given back when the view is left.

import { blob, path } from "./api.js";

const AT_ONCE = 2;
const waiting = [];
let running = 0;

/** Load an upright photo into an image; resolves when it can be measured and drawn. */
export async function load(image, jobId, index, maxSide, signal) {
  const source = await inTurn(() =>
    blob(`${path("api", "v1", "jobs", jobId, "images", index, "photo")}?maxSide=${maxSide}`, signal),
  );
  const address = URL.createObjectURL(source);
  signal.addEventListener("abort", () => URL.revokeObjectURL(address));
  image.src = address;
  await image.decode();
}

/** Do what costs the server something when fewer than two others are at it. */
export async function inTurn(work) {
  if (running >= AT_ONCE) await new Promise((resolve) => waiting.push(resolve));
  running += 1;
  try {
    return await work();
  } finally {
    running -= 1;
    waiting.shift()?.();
  }
}
