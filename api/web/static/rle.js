// How is a mask read? COCO's compressed run lengths: runs of 0 and 1 in turn that go down the columns, left to right.
// A mask is never unpacked whole: it is sampled straight at the size at which it is seen.

/** The lengths of the runs of a compressed string, background first; the numbers that pycocotools calls counts. */
export function runLengths(counts) {
  const lengths = [];
  let at = 0;
  while (at < counts.length) {
    // Five bits a character, least first; the sixth says that more follow, the fifth of the last is the sign.
    let value = 0;
    let weight = 1;
    let group;
    do {
      group = counts.charCodeAt(at++) - 48;
      if (!(group >= 0 && group < 64))
        throw new Error("a mask holds a character that no run length has, or ends too early");
      value += (group & 31) * weight;
      weight *= 32;
    } while (group & 32);
    if (group & 16) value -= weight;
    // From the fourth on, a length is the difference to the one before last.
    if (lengths.length > 2) value += lengths[lengths.length - 2];
    lengths.push(value);
  }
  return lengths;
}

/**
 * A mask at another size, by the nearest pixel, as vertical spans.
 *
 * segmentation: {size: [height, width], counts} of the upright photo; width, height: of the picture that is drawn on.
 * Gives an Int32Array of triples: column, first row, row after the last.
 */
export function sample(segmentation, width, height) {
  const [fullHeight, fullWidth] = segmentation.size;
  const runs = runLengths(segmentation.counts);
  if (runs.some((run) => run < 0) || runs.reduce((sum, run) => sum + run, 0) !== fullHeight * fullWidth) {
    throw new Error(`the run lengths of a mask do not fill its ${fullWidth} × ${fullHeight} pixels`);
  }
  const ends = Float64Array.from(runs);
  for (let run = 1; run < ends.length; run++) ends[run] += ends[run - 1];
  const row = (full) => Math.ceil((full * height) / fullHeight - 0.5); // the first whose middle lies at or below it
  const spans = [];
  let first = 1; // runs of the mask have odd numbers
  for (let column = 0; column < width; column++) {
    const begin = Math.floor(((column + 0.5) * fullWidth) / width) * fullHeight;
    while (first < ends.length && ends[first] <= begin) first += 2;
    for (let run = first; run < ends.length && ends[run - 1] < begin + fullHeight; run += 2) {
      const top = row(Math.max(ends[run - 1] - begin, 0));
      const bottom = row(Math.min(ends[run] - begin, fullHeight));
      if (top < bottom) spans.push(column, top, bottom);
    }
  }
  return Int32Array.from(spans);
}
