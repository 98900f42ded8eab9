// Charts: lines, and bars stacked by category, over time; each also as a table of numbers, and usable by keyboard and
// screen reader. Drawn by uPlot, which is loaded with this module only.
import uPlot from "./vendor/uplot/uPlot.esm.js";
import { fill, h, link } from "./dom.js";
import { count } from "./say.js";

const LOADED = ["/static/vendor/uplot/uPlot.min.css", "/static/charts.css"].map(
  (href) =>
    new Promise((done) => {
      // Without its style a chart has a wrong size, but is better than none.
      document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href, onload: done, onerror: done }));
    }),
);
await Promise.all(LOADED);

const HOUR = 3600000;
const DAY = 24 * HOUR;
const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
const SECOND = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const DATE = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const UTC_DATE = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", timeZone: "UTC" });
const SI = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const FONT = "12px system-ui, sans-serif";

// Numbers on an axis: short, with SI prefixes; amounts of money with the currency sign.
export const short = (number) => SI.format(number);
export const money = (number) => (number === 0 ? "$0" : Math.abs(number) < 0.01 ? `$${number.toPrecision(1)}` : Math.abs(number) < 10 ? `$${number.toFixed(2)}` : `$${SI.format(number)}`);
export const clock = (ms, seconds) => (seconds ? SECOND : TIME).format(ms);
export const dayAndTime = (ms) => `${DATE.format(ms)} ${TIME.format(ms)}`;
export const date = (ms) => DATE.format(ms);

const LEVELS = ["", "ALLOW", "NUDGE", "REINFORCE", "THROTTLE", "ASK", "PAUSE", "BLOCK", "ROLLBACK", "KILL"];
export const levelOrder = (one, other) => LEVELS.indexOf(one) - LEVELS.indexOf(other);
export const levelName = (level) => level || "no level";
export const levelColour = (level) => `--level-${(level || "none").toLowerCase()}`;

// The value of a colour in the current theme.
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const drawn = new Set();
const again = () => {
  for (const one of [...drawn]) if (one.place.isConnected) one.build();
    else drawn.delete(one);
};
new MutationObserver(again).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);

// Draws with `make(width)`, which gives uPlot's options and data, in the place's width; again when width or theme change.
export function canvas(place, make) {
  let width = 0;
  const one = {
    place,
    plot: null,
    build() {
      if (!width) return;
      one.plot?.destroy();
      const [options, data] = make(width);
      one.plot = options && new uPlot({ width, legend: { show: false }, ...options }, data, place);
    },
  };
  drawn.add(one);
  new ResizeObserver(() => {
    const now = Math.floor(place.clientWidth);
    if (now === width) return;
    width = now;
    one.build();
  }).observe(place);
  return one;
}

export const axis = (more) => ({ stroke: () => colour("--dim"), font: FONT, grid: { stroke: () => colour("--grid"), width: 1 }, ticks: { show: false }, gap: 6, ...more });

// Labels of times (epoch milliseconds): the time of day, and below it the date if it changes.
export function timeLabels(splits, step, utc) {
  if (utc) return splits.map((at) => UTC_DATE.format(at));
  let before = null;
  return splits.map((at) => {
    const day = DATE.format(at);
    const changed = day !== before;
    before = day;
    if (step >= DAY) return day;
    const text = clock(at, step < 60000);
    return changed ? `${text}\n${day}` : text;
  });
}

// Ticks at noon in UTC, as many as fit.
const days = (times, width) => () => {
  const every = Math.ceil(times.length / Math.max(1, (width - 60) / 64));
  return times.filter((_, number) => number % every === 0).map((at) => at + DAY / 2);
};

export const stepped = () => uPlot.paths.stepped({ align: 1 });

// Horizontal lines at limits; a limit far above the data is named at the upper edge.
export function paintLimits(plot, limits) {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.font = `${12 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "right";
  ctx.lineWidth = 1.5 * ratio;
  // With an outline in the background's colour, so that it is legible on bars too.
  const write = (text, x, y) => {
    ctx.setLineDash([]);
    ctx.save();
    ctx.strokeStyle = colour("--panel");
    ctx.lineWidth = 4 * ratio;
    ctx.lineJoin = "round";
    ctx.strokeText(text, x, y);
    ctx.restore();
    ctx.fillText(text, x, y);
  };
  let above = 0;
  for (const { value, text, kind } of limits) {
    ctx.strokeStyle = ctx.fillStyle = colour(kind === "warn" ? "--warn" : "--bad");
    const right = bbox.left + bbox.width - 4 * ratio;
    if (value > plot.scales.y.max) {
      write(`\u2191 ${text}`, right, bbox.top + (12 + 15 * above) * ratio);
      above += 1;
      continue;
    }
    const y = plot.valToPos(value, "y", true);
    ctx.setLineDash([6 * ratio, 4 * ratio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    write(text, right, y - 4 * ratio < bbox.top + 12 * ratio ? y + 14 * ratio : y - 4 * ratio);
  }
  ctx.restore();
}

// The axis maximum: it includes a limit that the data comes near.
function topOf(most, limits) {
  const near = limits.map((one) => one.value).filter((value) => value > most && most >= value / 5);
  return Math.max(most, ...near) * 1.12 || 1;
}

// A chart over time. `update({ times, step, series, limits, summary, format })`: `times` in epoch milliseconds, each the
// beginning of a step; `series` of { label, colour, values, kind } with the kind "stack", "line" or "steps"; `summary`
// the text for a screen reader.
export function timeChart({ label, height = 190, tableHead = "Time", labelOf }) {
  const legend = h("ul", { class: "chart-legend", "aria-hidden": "true" });
  const readout = h("p", { class: "chart-readout", "aria-hidden": "true" });
  const plotted = h("div", { class: "chart-plot", role: "img", tabindex: "0", "aria-label": label });
  plotted.style.height = `${height}px`;
  const announced = h("p", { class: "hidden", role: "status" });
  const rows = h("div", { class: "chart-rows scroll" });
  const details = h("details", { class: "chart-table", ontoggle: () => details.open && drawTable() }, h("summary", { "aria-label": `Table: ${label}` }, "Table"), rows);
  const figure = h("figure", { class: "chart" }, h("div", { class: "chart-head" }, legend, readout), plotted, announced, details);
  let held = null;
  let at = null;

  const nameOf = (number) => (labelOf ?? dayAndTime)(held.times[number]);
  const shownOf = (series, number) => (held.format ?? count)(series.values[number] ?? 0);
  const textOf = (number) => `${nameOf(number)}: ${held.series.map((series) => `${series.label} ${shownOf(series, number)}`).join(", ") || held.none || "none"}`;

  const drawn = canvas(plotted, (width) => {
    if (!held) return [null];
    const { times, step, series, limits = [] } = held;
    const before = at;
    const stacked = series.filter((one) => one.kind === "stack");
    const sums = [];
    let below = times.map(() => 0);
    for (const one of stacked) {
      below = below.map((sum, number) => sum + (one.values[number] ?? 0));
      sums.push(below);
    }
    const lines = series.filter((one) => one.kind !== "stack");
    const most = Math.max(0, ...below, ...lines.flatMap((one) => one.values));
    const bars = uPlot.paths.bars({ size: [0.86, 100], align: stacked.length ? 1 : 0 });
    const whole = !held.format;
    return [
      {
        height,
        ms: 1,
        cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
        scales: { x: { time: true, range: () => [times[0], times.at(-1) + (stacked.length ? step : 0)] }, y: { range: () => [0, topOf(most, limits)] } },
        axes: [
          axis({ values: (_, splits, _axis, _space, incr) => timeLabels(splits, Math.max(incr, held.utc ? DAY : 0), held.utc), space: 64, size: held.utc ? 26 : 38, ...(held.utc ? { splits: days(times, width) } : {}) }),
          axis({ values: (_, splits) => splits.map((value) => (whole && !Number.isInteger(value) ? "" : (held.axisFormat ?? short)(value))), size: 54, space: 32, ...(whole ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 1e7, 1e8] } : {}) }),
        ],
        series: [
          {},
          // The highest sum first: each later one is drawn over it.
          ...stacked.map((one) => ({ paths: bars, fill: () => colour(one.colour), width: 0, points: { show: false } })).reverse(),
          ...lines.map((one) => ({ paths: one.kind === "steps" ? stepped() : undefined, stroke: () => colour(one.colour), width: 2, dash: one.dash, points: { show: times.length < 3 } })),
        ],
        hooks: { draw: [(plot) => paintLimits(plot, limits)], setCursor: [(plot) => show(plot.cursor.idx)], ready: [(plot) => before !== null && pointAt(plot, before)] },
        padding: [8, width > 500 ? 12 : 4, 0, 0],
      },
      [times, ...sums.reverse(), ...lines.map((one) => one.values)],
    ];
  });

  const show = (number) => {
    at = number ?? null;
    readout.textContent = at === null || held === null ? "" : textOf(at);
  };
  const pointAt = (plot, number) => {
    const half = held.series.some((one) => one.kind === "stack") ? held.step / 2 : 0;
    plot.setCursor({ left: plot.valToPos(held.times[number] + half * 0.9, "x"), top: 10 });
  };
  plotted.addEventListener("keydown", (event) => {
    if (!held || !["ArrowLeft", "ArrowRight", "Home", "End", "Escape"].includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    const last = held.times.length - 1;
    if (event.key === "Escape") {
      drawn.plot?.setCursor({ left: -10, top: -10 });
      return show(null);
    }
    const next = { ArrowLeft: (at ?? last + 1) - 1, ArrowRight: (at ?? -1) + 1, Home: 0, End: last }[event.key];
    const number = Math.min(last, Math.max(0, next));
    if (drawn.plot) pointAt(drawn.plot, number);
    show(number);
    announced.textContent = textOf(number);
  });

  const drawTable = () => {
    const { series, times } = held;
    const filled = times.flatMap((_, number) => (series.some((one) => one.values[number]) ? [number] : []));
    fill(
      rows,
      filled.length < times.length && h("p", { class: "hint" }, `Rows without any are left out (${count(times.length - filled.length)}).`),
      filled.length > 0 &&
        h(
          "table",
          {},
          h("caption", { class: "hidden" }, label),
          h("thead", {}, h("tr", {}, h("th", { scope: "col" }, tableHead), series.map((one) => h("th", { scope: "col", class: "num" }, one.label)))),
          h("tbody", {}, filled.map((number) => h("tr", {}, h("th", { scope: "row" }, nameOf(number)), series.map((one) => h("td", { class: "num", data: { head: one.label } }, shownOf(one, number)))))),
        ),
    );
  };
  figure.update = (next) => {
    const read = at === null ? -1 : next.times.indexOf(held.times[at]); // the selected time stays selected
    held = next;
    plotted.setAttribute("aria-label", `${label}: ${next.summary} The arrow keys read the values.`);
    fill(legend, next.series.map((one) => h("li", {}, swatch(one.colour, one.kind), one.label, one.note && h("span", { class: "dim" }, ` ${one.note}`))));
    show(read < 0 ? null : read);
    drawn.build();
    if (details.open) drawTable();
  };
  return figure;
}

export function swatch(name, kind = "stack") {
  const made = h("i", { class: `swatch ${kind}`, "aria-hidden": "true" });
  made.style.setProperty("--swatch", `var(${name})`);
  return made;
}

// The greatest first, as bars with links: rows of { name, value, href, text }.
export function topBars(rows, label) {
  const most = Math.max(1, ...rows.map((one) => one.value));
  return h(
    "ol",
    { class: "top-bars", "aria-label": label },
    rows.map((one) => {
      const bar = h("i");
      bar.style.width = `${(100 * one.value) / most}%`;
      return h("li", {}, link(one.href, one.name, { class: "name", title: one.name }), h("span", { class: "track", "aria-hidden": "true" }, bar), h("span", { class: "value" }, one.text ?? count(one.value)));
    }),
  );
}
