// How did it go over time? Lines in an SVG, with a legend that needs no colours, and the same as a table for those who
// cannot see lines.

import { el, svg } from "./dom.js";
import { clock, count, utc } from "./words.js";

const HEIGHT = 200;
const MARGIN = { top: 10, right: 12, bottom: 24, left: 40 };
const ROWS = 12; // of the table

/**
 * A chart of samples. series: [{key, label, kind}], where kind names a colour and a dash in the style sheet.
 * Samples in which a key is missing leave a gap.
 */
export function chart(title, series, samples, width) {
  const times = samples.map((sample) => new Date(sample.at));
  const [from, to] = [times[0].getTime(), times.at(-1).getTime()];
  const most = Math.max(1, ...samples.flatMap((sample) => series.map(({ key }) => sample[key] ?? 0)));
  const step = niceStep(most);
  const top = step * Math.ceil(most / step);
  const x = (at) =>
    MARGIN.left + (to === from ? 0 : ((at - from) / (to - from)) * (width - MARGIN.left - MARGIN.right));
  const y = (value) => HEIGHT - MARGIN.bottom - (value / top) * (HEIGHT - MARGIN.top - MARGIN.bottom);

  const grid = [];
  for (let value = 0; value <= top; value += step) {
    grid.push(
      svg("line", { class: "grid-line", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }),
    );
    grid.push(svg("text", { x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end" }, count(value)));
  }
  const marks = [
    [from, "start"],
    [to, "end"],
  ].map(([at, anchor]) => svg("text", { x: x(at), y: HEIGHT - 6, "text-anchor": anchor }, clock(new Date(at))));
  const lines = series.flatMap(({ key, kind }) =>
    paths(samples, times, key, x, y).map((d) => svg("path", { class: `series ${kind}`, d })),
  );

  const told = series
    .map(({ key, label }) => {
      const values = samples.map((sample) => sample[key]).filter((value) => value !== null && value !== undefined);
      return `${label}: ${count(values.at(-1) ?? 0)} now, at most ${count(Math.max(0, ...values))}`;
    })
    .join("; ");
  const picture = svg(
    "svg",
    {
      class: "chart",
      viewBox: `0 0 ${width} ${HEIGHT}`,
      width,
      height: HEIGHT,
      role: "img",
      "aria-label": `${title}. ${told}.`,
    },
    grid,
    marks,
    lines,
  );
  return el(
    "figure",
    {},
    el("figcaption", {}, title),
    legend(series, samples.at(-1)),
    picture,
    numbers(title, series, samples),
  );
}

function legend(series, last) {
  return el(
    "ul",
    { class: "legend" },
    series.map(({ key, label, kind }) =>
      el(
        "li",
        {},
        svg(
          "svg",
          { width: 28, height: 10, "aria-hidden": "true" },
          svg("path", { class: `series ${kind}`, d: "M0 5H28" }),
        ),
        `${label} ${count(last[key] ?? 0)}`,
      ),
    ),
  );
}

/** The same in numbers: every so many samples, the newest first. */
function numbers(title, series, samples) {
  const every = Math.max(1, Math.ceil(samples.length / ROWS));
  const chosen = samples.filter((_, place) => (samples.length - 1 - place) % every === 0).reverse();
  const row = (sample) =>
    el(
      "tr",
      {},
      el(
        "th",
        { scope: "row" },
        el("time", { datetime: sample.at, title: utc(new Date(sample.at)) }, clock(new Date(sample.at))),
      ),
      series.map(({ key }) => el("td", {}, count(sample[key] ?? 0))),
    );
  return el(
    "details",
    {},
    el("summary", {}, "As a table"),
    el(
      "table",
      { class: "numbers" },
      el("caption", {}, title),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          el("th", { scope: "col" }, "Time"),
          series.map(({ label }) => el("th", { scope: "col" }, label)),
        ),
      ),
      el("tbody", {}, chosen.map(row)),
    ),
  );
}

/** One path per stretch without a gap. */
function paths(samples, times, key, x, y) {
  const found = [];
  let open = false;
  samples.forEach((sample, place) => {
    const value = sample[key];
    if (value === null || value === undefined) {
      open = false;
      return;
    }
    const point = `${x(times[place].getTime()).toFixed(1)} ${y(value).toFixed(1)}`;
    if (open) found[found.length - 1] += `L${point}`;
    else found.push(`M${point}h0.1`); // a lone sample is a dot
    open = true;
  });
  return found;
}

/** Whole numbers at which lines are drawn: about four of them. */
function niceStep(most) {
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  return Math.max(
    1,
    [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough),
  );
}
