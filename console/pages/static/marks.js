// The mark of a step in its lane: its shape and colour, and how marks are painted.
import { levelColour } from "./charts.js";
import { laneOf, levelShown } from "./steps.js";

const SEVERITY = { low: "--level-nudge", medium: "--level-throttle", high: "--level-block", critical: "--level-kill" };

// The shape of a step's mark, and the name of its colour.
export function lookOf(step) {
  const { record } = step;
  const lane = laneOf(step);
  if (lane === "findings") return ["dot", SEVERITY[record?.finding?.severity] ?? "--level-none"];
  const level = levelShown(record);
  if (lane === "decisions") return [["PAUSE", "BLOCK", "ROLLBACK", "KILL"].includes(level) ? "cross" : "diamond", levelColour(level)];
  if (lane === "operators") return ["triangle", "--accent"];
  if (lane === "model") return ["ring", "--model"];
  if (lane === "plumbing") return ["small", "--level-none"];
  return ["tick", record?.outcome && record.outcome !== "ok" ? "--bad" : "--tool"];
}

const SHAPES = {
  dot: (ctx, x, y, r) => ctx.arc(x, y, 5 * r, 0, 7),
  small: (ctx, x, y, r) => ctx.arc(x, y, 3 * r, 0, 7),
  ring: (ctx, x, y, r) => ctx.arc(x, y, 4 * r, 0, 7),
  tick: (ctx, x, y, r) => ctx.rect(x - r, y - 8 * r, 2 * r, 16 * r),
  diamond: (ctx, x, y, r) => [[0, -7], [7, 0], [0, 7], [-7, 0]].forEach(([a, b]) => ctx.lineTo(x + a * r, y + b * r)),
  triangle: (ctx, x, y, r) => [[0, -7], [7, 6], [-7, 6]].forEach(([a, b]) => ctx.lineTo(x + a * r, y + b * r)),
  cross: (ctx, x, y, r) => [[-7, -4], [-4, -7], [0, -3], [4, -7], [7, -4], [3, 0], [7, 4], [4, 7], [0, 3], [-4, 7], [-7, 4], [-3, 0]].forEach(([a, b]) => ctx.lineTo(x + a * r, y + b * r)),
};

// Paints marks, the spans of calls, and the tools' names; `yOf(lane)` is the middle of a lane, `of(name)` a colour.
export function paintMarks(plot, seen, yOf, of) {
  const { ctx, bbox } = plot;
  const r = devicePixelRatio;
  for (const one of seen) {
    if (one.from === null) continue;
    const [x, end] = [plot.valToPos(one.from, "x", true), plot.valToPos(one.at, "x", true)];
    ctx.globalAlpha = 0.45;
    ctx.fillStyle = of(one.look[1]);
    ctx.fillRect(x, yOf("tools") - 5 * r, Math.max(r, end - x), 10 * r);
  }
  ctx.globalAlpha = 1;
  ctx.lineWidth = 1.5 * r;
  for (const one of seen) {
    const [shape, name] = one.look;
    ctx.beginPath();
    SHAPES[shape](ctx, plot.valToPos(one.at, "x", true), yOf(one.lane) + one.below * r, r);
    ctx.closePath();
    ctx.fillStyle = shape === "ring" ? of("--panel") : of(name);
    ctx.strokeStyle = of(shape === "ring" ? name : "--panel");
    if (shape !== "tick") ctx.stroke();
    ctx.fill();
  }
  // The tool's name, if it fits before the next call.
  ctx.font = `${11 * r}px ui-monospace, monospace`;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.fillStyle = of("--dim");
  const calls = seen.filter((one) => one.lane === "tools" && one.text);
  calls.forEach((one, number) => {
    const x = plot.valToPos(one.at, "x", true);
    const room = (number + 1 < calls.length ? plot.valToPos(calls[number + 1].at, "x", true) : bbox.left + bbox.width) - x - 6 * r;
    const fits = Math.floor(room / (6.7 * r));
    if (fits >= 6) ctx.fillText(one.text.length > fits ? `${one.text.slice(0, fits - 1)}\u2026` : one.text, x, yOf("tools") - 10 * r);
  });
}
