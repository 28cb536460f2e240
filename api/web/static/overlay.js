// What is drawn over a photo? Each instance that is shown: filled, with a firm edge inside its mask. Where masks lie on
// each other the better one is seen, and the one under the pointer before all. Nothing is drawn outside a mask.

import { sample } from "./rle.js";

const GOLDEN_ANGLE = 0.61803398875; // steps of the hue by it stay apart however many there are

/** The colour of instance `number`, the same as in the overlay files: [red, green, blue]. */
export function colourOf(number) {
  const hue = ((number * GOLDEN_ANGLE) % 1) * 6;
  const saturation = [0.95, 0.8][number % 2];
  const value = [1, 0.95][Math.floor(number / 2) % 2];
  const part = (shift) => {
    const at = (shift + hue) % 6;
    return Math.round(255 * (value - value * saturation * Math.max(0, Math.min(at, 4 - at, 1))));
  };
  return [part(5), part(3), part(1)];
}

/** A pixel as one number: in memory, its bytes are red, green, blue, alpha, and the first one is the lowest. */
function word([red, green, blue], alpha) {
  return ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** A canvas over a photo of the same size, and the instances of one record. */
export class Overlay {
  constructor(canvas, instances) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.picture = this.context.createImageData(canvas.width, canvas.height);
    this.words = new Uint32Array(this.picture.data.buffer); // a pixel each
    this.owners = new Uint32Array(canvas.width * canvas.height); // whose mask is on top, by pixel; 0: nobody's
    this.edge = Math.max(1, Math.round(Math.max(canvas.width, canvas.height) / 640));
    this.shapes = instances.map((instance) => this.#shape(instance));
  }

  #shape(instance) {
    const spans = sample(instance.segmentation, this.canvas.width, this.canvas.height);
    return { id: instance.id, colour: colourOf(instance.id), spans, edges: this.#edges(spans) };
  }

  /** The pixels of a mask that have one outside it within the width of the edge. */
  #edges(spans) {
    const { width, height } = this.canvas;
    const inside = (this.scratch ??= new Uint8Array(width * height));
    this.#each(spans, (pixel) => (inside[pixel] = 1));
    const edges = [];
    this.#each(spans, (pixel, x, y) => {
      const near = this.edge;
      const within =
        x >= near &&
        x < width - near &&
        inside[pixel - near] &&
        inside[pixel + near] &&
        y >= near &&
        y < height - near &&
        inside[pixel - near * width] &&
        inside[pixel + near * width];
      if (!within) edges.push(pixel);
    });
    this.#each(spans, (pixel) => (inside[pixel] = 0));
    return Uint32Array.from(edges);
  }

  #each(spans, visit) {
    const width = this.canvas.width;
    for (let at = 0; at < spans.length; at += 3) {
      for (let y = spans[at + 1]; y < spans[at + 2]; y++) visit(y * width + spans[at], spans[at], y);
    }
  }

  /** Draw anew. shown: ids; marked: the id that stands out, or null; opacity: of the fill, 0 to 1. */
  paint(shown, marked, opacity) {
    this.words.fill(0);
    this.owners.fill(0);
    const last = (shape) => (shape.id === marked ? 1 : 0);
    const order = this.shapes.filter((shape) => shown.has(shape.id)).reverse(); // the best on top
    for (const shape of order.sort((one, other) => last(one) - last(other))) {
      const faded = marked !== null && shape.id !== marked;
      const alpha = Math.round(255 * (shape.id === marked ? Math.min(1, opacity + 0.25) : opacity) * (faded ? 0.4 : 1));
      const inner = word(shape.colour, alpha);
      const outer = word(shape.colour, faded ? 128 : 255);
      this.#each(shape.spans, (pixel) => {
        this.words[pixel] = inner;
        this.owners[pixel] = shape.id;
      });
      for (const pixel of shape.edges) this.words[pixel] = outer;
    }
    this.context.putImageData(this.picture, 0, 0);
  }

  /** The id of the instance that is seen at a place of the canvas's element, or null. */
  at(event) {
    const frame = this.canvas.getBoundingClientRect();
    const x = Math.floor(((event.clientX - frame.left) / frame.width) * this.canvas.width);
    const y = Math.floor(((event.clientY - frame.top) / frame.height) * this.canvas.height);
    if (x < 0 || y < 0 || x >= this.canvas.width || y >= this.canvas.height) return null;
    return this.owners[y * this.canvas.width + x] || null;
  }
}
