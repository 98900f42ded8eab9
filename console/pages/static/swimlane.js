// A session's steps in lanes over time, and its usage below them. Marks are painted: thousands of elements are slow.
import { axis, canvas, colour, money, paintLimits, stepped, swatch } from "./charts.js";
import { fill, h } from "./dom.js";
import { lookOf, paintMarks } from "./marks.js";
import { count, exact, ms, plural, span, usd } from "./say.js";
import { argumentsOf, isPlumbing, laneOf } from "./steps.js";
import { timeScale } from "./time-scale.js";

const LANES = [["model", "Model"], ["tools", "Tool calls"], ["findings", "Findings"], ["decisions", "Decisions"], ["operators", "Operators"]];
const PLUMBING = ["plumbing", "Signals"];
const LANE = 36;
const SIDE = 84; // width of the lanes' names, and of the numbers beside the curves
const CURVE = 96;
const BESIDE = [0, -9, 9]; // offsets of marks of one lane and time, in pixels below its middle
const AROUND = 12; // steps before and after a stop
const NEAR = 14; // maximum distance of the pointer from its mark, in pixels
const ROWS = 1000;

// `onchoose(number)` is called when a mark is selected. `update({ steps, folded, limits, frames })` draws; `choose(number)`
// selects a step.
export function swimlane({ onchoose }) {
  const place = h("div");
  const option = h("div", { id: "lane-mark", class: "lane-ring", role: "option", "aria-selected": "true", hidden: true });
  const box = h("div", { class: "lane-box", tabindex: "0", role: "listbox", "aria-label": "Steps by lane" }, place, option);
  const pointed = h("p", { class: "lane-said", "aria-hidden": "true" });
  const tokens = curve("Tokens", (value) => exact(Math.round(value)), count);
  const cost = curve("Cost", usd, money);
  const progress = curve("No progress", (value) => `${Math.round(value * 100)} %`, (value) => `${Math.round(value * 100)} %`);
  const curves = [tokens, cost, progress];
  const rows = h("div", { class: "chart-rows scroll" });
  const details = h("details", { class: "chart-table", ontoggle: () => details.open && drawTable() }, h("summary", { "aria-label": "Table: tokens, cost and progress" }, "Table"), rows);
  const scrolled = h("div", { class: "lanes" }, h("div", { class: "lanes-inner" }, box, curves.map((one) => one.root)));
  const button = (text, label, act) => h("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
  const stop = button("Around the stop", "Around the last stop", () => aroundStop());
  const root = h(
    "div",
    {},
    h("div", { class: "lane-tools" }, h("span", { class: "row", role: "group", "aria-label": "Time shown" }, button("Fit", "Show the whole session", () => zoom(0, scale.end)), stop, button("+", "Zoom in", () => by(0.5)), button("\u2212", "Zoom out", () => by(2))), h("span", { class: "hint" }, "Drag over the lanes to zoom in; arrow keys go from mark to mark.")),
    scrolled,
    pointed,
    details,
  );
  let held = { steps: [], folded: true, limits: [], frames: null };
  let lanes = LANES;
  let marks = []; // { number, lane, at, from }: the place of a step; for a result, also that of its call
  let scale = timeScale([]);
  let range = null;
  let chosen = -1;

  const shown = () => range ?? [0, scale.end];
  // The same margin on both sides, so that the first and the last mark are completely visible.
  const padded = () => {
    const [min, max] = shown();
    const rim = (max - min) * 0.015;
    return [min - rim, max + rim];
  };
  const zoom = (min, max) => {
    const least = Math.min(50, scale.end);
    const from = Math.max(0, Math.min(min, scale.end - least));
    const to = Math.min(scale.end, Math.max(max, from + least));
    range = from <= 0 && to >= scale.end ? null : [from, to];
    for (const one of [drawn, ...curves.map((each) => each.drawn)]) one.plot?.setScale("x", { min: padded()[0], max: padded()[1] });
    ring();
  };
  const by = (factor) => {
    const [min, max] = shown();
    const mark = marks.find((one) => one.number === chosen);
    const middle = mark && mark.at >= min && mark.at <= max ? mark.at : (min + max) / 2;
    zoom(middle - ((middle - min) * factor), middle + (max - middle) * factor);
  };
  const lastStop = () => marks.findLastIndex((one) => one.lane === "decisions" && lookOf(held.steps[one.number])[0] === "cross");
  const aroundStop = () => {
    const at = lastStop();
    if (at < 0) return;
    const some = marks.slice(Math.max(0, at - AROUND), at + AROUND + 1).map((one) => one.at);
    zoom(Math.min(...some), Math.max(...some));
  };

  const drawn = canvas(place, (width) => [
    {
      height: LANE * lanes.length + 46,
      ms: 1,
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false }, sync: { key: "story" } },
      scales: { x: { time: false, range: padded }, y: { range: () => [0, lanes.length] } },
      axes: [timeAxis(width), axis({ size: SIDE, grid: { show: false }, splits: () => lanes.map((_, number) => lanes.length - number - 0.5), values: () => lanes.map(([, name]) => name) })],
      series: [{}, { show: false }],
      padding: [4, 10, 0, 0],
      hooks: {
        draw: [paint],
        setSelect: [(plot) => plot.select.width > 4 && zoom(plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x"))],
        setCursor: [(plot) => point(plot)],
        ready: [(plot) => plot.over.addEventListener("click", () => nearest(plot) && pick(nearest(plot)))],
      },
    },
    [[0, scale.end], [null, null]],
  ]);
  const timeAxis = (width, more) => {
    let step = 1000;
    return axis({
      size: 38,
      splits: (_, _axis, min, max) => {
        const found = scale.ticks(min, max, width - SIDE, 84);
        step = found.step;
        return found.places;
      },
      values: (_, splits) => scale.labels(splits, step),
      ...more,
    });
  };

  // The waits that are not to scale, in every chart.
  function paintWaits(plot, named) {
    const { ctx, bbox } = plot;
    const r = devicePixelRatio;
    ctx.save();
    ctx.font = `${11 * r}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    for (const wait of scale.waits) {
      const [x, y] = [plot.valToPos(wait.from, "x", true), plot.valToPos(wait.to, "x", true)];
      if (y < bbox.left || x > bbox.left + bbox.width) continue;
      const [from, to] = [Math.max(x, bbox.left), Math.min(y, bbox.left + bbox.width)];
      ctx.fillStyle = colour("--plain-soft");
      ctx.fillRect(from, bbox.top, to - from, bbox.height);
      ctx.strokeStyle = colour("--dim");
      ctx.setLineDash([2 * r, 3 * r]);
      ctx.beginPath();
      for (const edge of [x, y]) if (edge >= bbox.left && edge <= bbox.left + bbox.width) ctx.rect(edge, bbox.top, 0, bbox.height);
      ctx.stroke();
      if (!named) continue;
      ctx.fillStyle = colour("--dim");
      // In the lowest lane, which is the emptiest of most sessions.
      ctx.fillText("no records", (from + to) / 2, bbox.top + bbox.height - 20 * r, Math.max(0, to - from - 4));
      ctx.fillText(span(wait.ms), (from + to) / 2, bbox.top + bbox.height - 6 * r, Math.max(0, to - from - 4));
    }
    ctx.restore();
  }

  function paint(plot) {
    const { ctx, bbox } = plot;
    const r = devicePixelRatio;
    const colours = {};
    const of = (name) => (colours[name] ??= colour(name));
    const yOf = (lane) => bbox.top + (lanes.findIndex(([id]) => id === lane) + 0.5) * (bbox.height / lanes.length);
    paintWaits(plot, true);
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left - 8 * r, bbox.top, bbox.width + 16 * r, bbox.height);
    ctx.clip();
    ctx.lineWidth = r;
    ctx.strokeStyle = of("--grid");
    for (const [id] of lanes) {
      ctx.beginPath();
      ctx.moveTo(bbox.left, yOf(id));
      ctx.lineTo(bbox.left + bbox.width, yOf(id));
      ctx.stroke();
    }
    const [min, max] = padded();
    const seen = marks.filter((one) => one.at >= min && (one.from ?? one.at) <= max);
    paintMarks(plot, seen, yOf, of);
    ctx.restore();
    queueMicrotask(ring);
  }

  const textOf = (number) => {
    const step = held.steps[number];
    const args = argumentsOf(step);
    return `Step ${count(number + 1)}, ${LANES.concat([PLUMBING]).find(([id]) => id === laneOf(step))[1]}, +${span(ms(step.time) - ms(held.steps[0].time))}: ${step.summary}${args ? ` (${args.length > 160 ? `${args.slice(0, 159)}\u2026` : args})` : ""}`;
  };
  const nearest = (plot) => {
    const { left, top } = plot.cursor;
    if (left === undefined || left < 0) return null;
    const lane = lanes[Math.min(lanes.length - 1, Math.max(0, Math.floor((top / plot.over.clientHeight) * lanes.length)))]?.[0];
    const below = top - (lanes.findIndex(([id]) => id === lane) + 0.5) * (plot.over.clientHeight / lanes.length);
    let best = null;
    let least = NEAR;
    for (const one of marks) {
      if (one.lane !== lane) continue;
      const away = Math.abs(plot.valToPos(one.at, "x") - left) + Math.abs(one.below - below) / 9;
      if (away < least) [best, least] = [one, away];
    }
    return best;
  };
  const point = (plot) => {
    const mark = nearest(plot);
    pointed.textContent = mark ? textOf(mark.number) : "";
    const { left } = plot.cursor;
    const at = left === undefined || left < 0 ? null : plot.posToVal(left, "x");
    for (const one of curves) one.read(at);
  };
  const pick = (mark) => {
    box.focus({ preventScroll: true });
    onchoose(mark.number);
  };

  box.addEventListener("keydown", (event) => {
    const at = marks.findIndex((one) => one.number === chosen);
    const mark = marks[at] ?? marks[0];
    if (!mark) return;
    const same = marks.filter((one) => one.lane === mark.lane);
    const lane = lanes.findIndex(([id]) => id === mark.lane);
    const beside = (step) => {
      for (let number = lane + step; number >= 0 && number < lanes.length; number += step) {
        const there = marks.filter((one) => one.lane === lanes[number][0]);
        if (there.length) return there.reduce((best, one) => (Math.abs(one.at - mark.at) < Math.abs(best.at - mark.at) ? one : best));
      }
      return mark;
    };
    const next = {
      ArrowRight: () => same[Math.min(same.length - 1, same.indexOf(mark) + 1)],
      ArrowLeft: () => same[Math.max(0, same.indexOf(mark) - 1)],
      ArrowUp: () => beside(-1),
      ArrowDown: () => beside(1),
      Home: () => marks[0],
      End: () => marks.at(-1),
    }[event.key];
    if (event.key === "+" || event.key === "-") by(event.key === "+" ? 0.5 : 2);
    else if (next) onchoose(next().number);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  // The selected mark; the text for screen readers is in the same element.
  const ring = () => {
    const { plot } = drawn;
    const mark = marks.find((one) => one.number === chosen);
    const [min, max] = padded();
    option.hidden = !plot || !mark || mark.at < min || mark.at > max;
    if (option.hidden) return;
    option.style.left = `${plot.over.offsetLeft + plot.valToPos(mark.at, "x")}px`;
    option.style.top = `${plot.over.offsetTop + (lanes.findIndex(([id]) => id === mark.lane) + 0.5) * (plot.over.clientHeight / lanes.length) + mark.below}px`;
  };

  const drawTable = () => {
    const points = tokens.points.length ? tokens.points : cost.points;
    const last = (of, at) => of.points.findLast((one) => one.number <= at)?.value;
    const cut = points.slice(-ROWS);
    fill(
      rows,
      cut.length < points.length && h("p", { class: "hint" }, `The last ${count(ROWS)} of ${count(points.length)}.`),
      h(
        "table",
        {},
        h("caption", { class: "hidden" }, "Tokens and cost so far, and how close the rules on progress are"),
        h("thead", {}, h("tr", {}, ["Step", "After", "Tokens", "Cost", ...progress.names].map((name, number) => h("th", { scope: "col", class: number ? "num" : "" }, name)))),
        h("tbody", {}, cut.map(({ number }) => h("tr", {}, h("th", { scope: "row" }, exact(number + 1)), [span(ms(held.steps[number].time) - ms(held.steps[0].time)), exact(last(tokens, number) ?? 0), usd(last(cost, number) ?? 0), ...progress.names.map((name) => `${Math.round(100 * (progress.valueAt(name, number) ?? 0))} %`)].map((text) => h("td", { class: "num" }, text))))),
      ),
    );
  };

  root.update = (next) => {
    const grown = held.steps !== next.steps;
    const folds = !grown && held.limits === next.limits && held.frames === next.frames;
    held = next;
    const { steps, folded, limits, frames } = held;
    lanes = folded || !steps.some(isPlumbing) ? LANES : [...LANES, PLUMBING];
    if (grown) scale = timeScale(steps.map((step) => ms(step.time)));
    const begun = new Map();
    const last = new Map();
    marks = [];
    for (const [number, step] of steps.entries()) {
      if (folded && isPlumbing(step)) continue;
      const at = scale.placeOf(ms(step.time));
      const call = step.topic === "actions" ? step.record?.call_id : null;
      const isCall = step.kind === "action.proposed";
      const from = call && step.kind === "action.completed" ? (begun.get(call) ?? null) : null;
      if (call && isCall) begun.set(call, at);
      const lane = laneOf(step);
      const same = last.get(lane)?.at === at ? last.get(lane).same + 1 : 0;
      last.set(lane, { at, same });
      marks.push({ number, lane, at, below: BESIDE[same % BESIDE.length], from, look: lookOf(step), text: isCall ? `${step.record?.action ?? ""} ${argumentsOf(step)}`.trim() : "" });
    }
    const of = (lane) => marks.filter((one) => one.lane === lane).length;
    box.setAttribute("aria-label", `${plural(marks.length, "step")} in lanes over ${span(steps.length ? ms(steps.at(-1).time) - ms(steps[0].time) : 0)}: ${lanes.map(([id, name]) => `${name} ${count(of(id))}`).join(", ")}${scale.waits.length ? `; ${plural(scale.waits.length, "wait")} without records, not to scale` : ""}. Left and right go along a lane, up and down to another.`);
    stop.hidden = lastStop() < 0;
    box.dataset.marks = marks.length;
    if (!folds) drawCurves(steps, limits, frames);
    drawn.build();
    if (details.open) drawTable();
    root.choose(chosen);
  };
  root.choose = (number) => {
    chosen = number;
    const at = marks.findIndex((one) => one.number === number);
    if (at >= 0) {
      option.setAttribute("aria-label", textOf(number));
      option.setAttribute("aria-posinset", String(at + 1));
      option.setAttribute("aria-setsize", String(marks.length));
      option.hidden = false; // a hidden element is not announced: its position follows
      box.setAttribute("aria-activedescendant", option.id);
      const [min, max] = shown();
      const where = marks[at].at;
      if (where < min || where > max) zoom(where - (max - min) / 2, where + (max - min) / 2);
    } else box.removeAttribute("aria-activedescendant");
    ring();
    // On a narrow screen the lanes scroll in their own box.
    const place = option.offsetLeft - scrolled.clientWidth / 2;
    if (!option.hidden && scrolled.scrollWidth > scrolled.clientWidth && Math.abs(place - scrolled.scrollLeft) > scrolled.clientWidth / 3) scrolled.scrollLeft = place;
    for (const one of curves) one.choose(number);
  };

  const drawCurves = (steps, limits, frames) => {
    const [ofTokens, ofCost, near] = [[], [], new Map()];
    let [spentTokens, spentCost] = [0, 0];
    const declared = {};
    for (const [number, { topic, record, time }] of steps.entries()) {
      if (topic !== "actions" || typeof record !== "object") continue;
      const at = scale.placeOf(ms(time));
      Object.assign(declared, record.task?.limits);
      if (record.usage) {
        spentTokens += (record.usage.input_tokens ?? 0) + (record.usage.output_tokens ?? 0) + (record.usage.cache_read_tokens ?? 0);
        spentCost += record.usage.cost_usd ?? 0;
        ofTokens.push({ number, at, value: spentTokens });
        ofCost.push({ number, at, value: spentCost });
      }
      const frame = frames?.byEvent.get(record.event_id);
      for (const rule of frame ? frames.progress : []) {
        if (!near.has(rule)) near.set(rule, []);
        near.get(rule).push({ number, at, value: frame.near[rule] ?? 0 });
      }
    }
    const lines = (resource, say) => [
      ...limits.filter((one) => one.resource === resource && one.per === "session").map((one) => ({ value: one.limit, text: `${one.rule} ${say(one.limit)}` })),
      ...(declared[resource] > 0 ? [{ value: declared[resource], text: `declared by the session ${say(declared[resource])}` }] : []),
    ];
    const draw = (one, name, points, resource, say) => {
      const set = lines(resource, say);
      const note = set.length ? set.map((each) => each.text).join(", ") : `no limit on ${name} of a session in the policy`;
      one.update({ lines: [{ label: "", colour: "--series-1", points }], limits: set, note: points.at(-1)?.value ? note : null, none: `No ${name} ${name === "tokens" ? "are" : "is"} recorded.`, steps: true });
    };
    draw(tokens, "tokens", ofTokens, "tokens", (value) => count(value));
    draw(cost, "cost", ofCost, "cost_usd", usd);
    const most = (points) => Math.max(...points.map((one) => one.value));
    const worst = [...near].filter(([, points]) => most(points) > 0).sort((one, other) => most(other[1]) - most(one[1])).slice(0, 4);
    progress.update({
      lines: worst.map(([rule, points], number) => ({ label: rule, colour: `--series-${number + 1}`, points })),
      limits: [{ value: 1, text: "a finding" }],
      note: `how close the rules on no progress were, made again under policy ${frames?.policy ?? ""}`,
      none: frames === null ? "Being made again." : frames.problem ? `How close the rules are is not known: ${frames.problem}` : "No rule on progress came near a finding.",
      top: 1.4,
    });
  };

  // A line on the same time axis as the lanes, with its limits.
  function curve(name, say, onAxis) {
    const named = h("p", { class: "curve-name" });
    const spot = h("div", { role: "img", "aria-label": name });
    let now = { lines: [], limits: [] };
    let at = -1;
    const one = { root: h("div", { class: "curve" }, named, spot), points: [], names: [] };
    const valueOf = (points, holds) => points.findLast(holds)?.value;
    const values = (holds) => now.lines.map((line) => [h("span", {}, line.label && [swatch(line.colour, "line"), ` ${line.label} `], h("span", { class: "mono" }, say(valueOf(line.points, holds) ?? 0)))]);
    const head = (holds) => fill(named, h("strong", {}, name), one.points.length && now.note !== null ? [values(holds), h("span", { class: "dim" }, now.note)] : h("span", { class: "dim" }, now.none));
    one.drawn = canvas(spot, (width) => {
      if (!one.points.length || now.note === null) return [null];
      // A sum starts at zero, and stays constant after the last step that used any.
      const ends = now.steps ? [0, scale.end] : [];
      const places = [...new Set([...ends, ...now.lines.flatMap((line) => line.points.map((point) => point.at))])].sort((a, b) => a - b);
      const most = Math.max(...now.lines.flatMap((line) => line.points.map((point) => point.value)));
      const near = now.limits.map((limit) => limit.value).filter((value) => most >= value / 5);
      const top = now.top ?? (Math.max(most * 1.15, ...near.map((value) => value * 1.4)) || 1);
      return [
        {
          height: CURVE,
          cursor: { y: false, points: { show: false }, drag: { x: false, y: false }, sync: { key: "story" } },
          scales: { x: { time: false, range: padded }, y: { range: () => [0, top] } },
          axes: [timeAxis(width, { size: 4, values: () => [] }), axis({ size: SIDE, space: 30, values: (_, splits) => splits.map((value) => (value > top ? "" : onAxis(value))) })],
          series: [{}, ...now.lines.map((line) => ({ stroke: () => colour(line.colour), width: 2, points: { show: false }, spanGaps: true, paths: now.steps ? stepped() : undefined }))],
          padding: [6, 10, 0, 0],
          hooks: { drawClear: [(plot) => paintWaits(plot, false)], draw: [(plot) => paintLimits(plot, now.limits)] },
        },
        [places, ...now.lines.map((line) => { const known = new Map([...ends.map((where) => [where, where ? line.points.at(-1).value : 0]), ...line.points.map((point) => [point.at, point.value])]); return places.map((where) => known.get(where) ?? null); })],
      ];
    });
    one.update = (next) => {
      now = next;
      one.points = next.lines[0]?.points ?? [];
      one.names = next.lines.map((line) => line.label);
      const ends = next.lines.map((line) => `${line.label} ${say(line.points.at(-1)?.value ?? 0)}`.trim()).join(", ");
      const peaks = next.lines.map((line) => `${line.label} ${say(Math.max(0, ...line.points.map((point) => point.value)))}`.trim()).join(", ");
      spot.setAttribute("aria-label", one.points.length && next.note !== null ? `${name} over time: ${ends} at the end, ${peaks} at most; ${next.note}.` : `${name}: ${next.none}`);
      spot.hidden = !one.points.length || next.note === null;
      one.drawn.build();
      one.choose(at);
    };
    one.valueAt = (label, number) => valueOf(now.lines.find((line) => line.label === label).points, (point) => point.number <= number);
    one.read = (where) => (where === null ? one.choose(at) : head((point) => point.at <= where));
    one.choose = (number) => {
      at = number;
      head((point) => point.number <= number);
    };
    return one;
  }
  return root;
}
