// Numbers and times for people. Times are shown in the reader's zone, and in whole when pointed at.
import { h } from "./dom.js";

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", year: "numeric" });
const USD = new Intl.NumberFormat("en-US", { style: "currency", currency: "USD", maximumFractionDigits: 2 });
const COUNT = new Intl.NumberFormat("en-US");

export const count = (number) => COUNT.format(number ?? 0);
export const usd = (number) => (number > 0 && number < 0.01 ? "<$0.01" : USD.format(number ?? 0));
export const ms = (moment) => (typeof moment === "number" ? moment : Date.parse(moment));
export const plural = (number, one, many) => `${count(number)} ${number === 1 ? one : (many ?? one + "s")}`;

export function span(milliseconds) {
  const s = Math.abs(milliseconds) / 1000;
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 90) return `${Math.round(s)} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  if (s < 129600) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} d`;
}

export function ago(moment) {
  const at = ms(moment);
  const passed = Date.now() - at;
  return time(at, passed < 0 ? `in ${span(passed)}` : `${span(passed)} ago`);
}

export function moment(value) {
  const at = new Date(ms(value));
  return time(at.getTime(), `${DAY.format(at)} ${CLOCK.format(at)}`);
}

function time(at, text) {
  const iso = new Date(at).toISOString();
  return h("time", { datetime: iso, title: iso }, text);
}
