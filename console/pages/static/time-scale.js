// Time to scale, except long waits: all of these have the same width, and are marked and named.
import { clock, date } from "./charts.js";

const SHORTEST_WAIT = 30000; // a shorter one is drawn to scale
const MOST_WAITS = 12;
const WAIT_SHARE = 0.06; // of the part that is to scale
const STEPS = [10, 50, 100, 500, 1000, 2000, 5000, 10000, 15000, 30000, 60000, 120000, 300000, 600000, 900000, 1800000, 3600000, 7200000, 21600000, 43200000, 86400000];

// The waits without records that are longer than a third of the remaining time.
export function waitsIn(times) {
  const sorted = [...new Set(times)].sort((one, other) => one - other);
  let rest = sorted.length ? sorted.at(-1) - sorted[0] : 0;
  const waits = [];
  const gaps = sorted.slice(1).map((to, number) => ({ from: sorted[number], to, length: to - sorted[number] }));
  for (const gap of gaps.sort((one, other) => other.length - one.length)) {
    const others = rest - gap.length;
    if (waits.length === MOST_WAITS || gap.length < SHORTEST_WAIT || others <= 0 || gap.length <= others / 3) break;
    waits.push(gap);
    rest = others;
  }
  return { waits: waits.sort((one, other) => one.from - other.from), first: sorted[0] ?? 0, last: sorted.at(-1) ?? 0, rest };
}

// Converts epoch milliseconds to places, which are milliseconds without the waits, and back.
export function timeScale(times) {
  const { waits, first, last, rest } = waitsIn(times);
  const wide = Math.max(rest, 1000) * WAIT_SHARE;
  const parts = []; // [from ms, to ms, from place, to place, whether it is a wait]
  let at = first;
  let place = 0;
  for (const wait of [...waits, null]) {
    const end = wait?.from ?? last;
    parts.push([at, end, place, place + end - at, false]);
    place += end - at;
    if (!wait) break;
    parts.push([wait.from, wait.to, place, place + wide, true]);
    place += wide;
    at = wait.to;
  }
  const within = (value, [a, b, x, y]) => (b > a ? x + ((y - x) * (value - a)) / (b - a) : x);
  const placeOf = (ms) => within(ms, parts.find(([, to]) => ms <= to) ?? parts.at(-1));
  const timeOf = (where) => {
    const [a, b, x, y] = parts.find(([, , , to]) => where <= to) ?? parts.at(-1);
    return within(where, [x, y, a, b]);
  };
  // Times between two places, with `space` pixels for each.
  const ticks = (min, max, width, space) => {
    const each = (max - min) / Math.max(1, width / space);
    const step = STEPS.find((one) => one >= each) ?? STEPS.at(-1);
    const offset = new Date(first).getTimezoneOffset() * 60000;
    const found = [];
    for (const [from, to, x, , wait] of parts) {
      if (wait) continue;
      for (let moment = Math.ceil((from - offset) / step) * step + offset; moment <= to; moment += step) {
        const where = x + moment - from;
        if (where < min || where > max || (found.length && where - found.at(-1) < each * 0.7)) continue;
        found.push(where);
      }
    }
    if (!found.length) found.push((min + max) / 2);
    return { step, places: found };
  };
  const labels = (places, step) => {
    let before = null;
    return places.map((one) => {
      const ms = timeOf(one);
      const day = date(ms);
      const text = clock(ms, step < 60000) + (step < 1000 ? `.${String(Math.floor(ms % 1000)).padStart(3, "0")}` : "");
      const shown = day === before ? text : `${text}\n${day}`;
      before = day;
      return shown;
    });
  };
  return { placeOf, timeOf, ticks, labels, end: Math.max(place, 1), waits: parts.filter((part) => part[4]).map(([from, to, x, y]) => ({ ms: to - from, from: x, to: y })) };
}
