// Human-readable numbers and times. Times are in the reader's zone; the tooltip has the exact one.
import { h } from "./dom.js";

const LOCALE = "en-US";
const S = 1000;
const MIN = 60 * S;
const H = 60 * MIN;
const D = 24 * H;
const SPACE = "\u00a0"; // a number and its unit stay on one line

const format = (more) => new Intl.DateTimeFormat(undefined, { hourCycle: "h23", ...more });
const CLOCK = format({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
const TIME = format({ hour: "2-digit", minute: "2-digit" });
const WEEKDAY = format({ weekday: "short" });
const DAY = format({ month: "short", day: "numeric" });
const DATE = format({ month: "short", day: "numeric", year: "numeric" });
const ZONE = format({ dateStyle: "medium", timeStyle: "long" });
const WHOLE = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 20 });
const COMPACT = new Intl.NumberFormat(LOCALE, { notation: "compact", maximumSignificantDigits: 3 });
const CENTS = new Intl.NumberFormat(LOCALE, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const FINE = new Intl.NumberFormat(LOCALE, { maximumSignificantDigits: 2, maximumFractionDigits: 20 });

const compact = (number) => COMPACT.format(number).replace(/[KMBT]$/, (unit) => SPACE + (unit === "K" ? "k" : unit));

// 9,999, 12.3 k, 1.2 M.
export const count = (number) => (Math.abs(number ?? 0) < 10_000 ? WHOLE.format(number ?? 0) : compact(number));

// Every digit, for numbers to look up or verify.
export const exact = (number) => WHOLE.format(number ?? 0);

export const plural = (number, one, many) => `${count(number)} ${number === 1 ? one : (many ?? one + "s")}`;

// $12.85, $0.004, $1.2 k.
export function usd(number) {
  const amount = Math.abs(number ?? 0);
  const sign = number < 0 ? "-" : "";
  if (amount === 0) return "$0";
  if (amount < 0.000_1) return `${sign}<$0.0001`;
  if (amount < 0.01) return `${sign}$${FINE.format(amount)}`;
  if (amount < 999.995) return `${sign}$${CENTS.format(amount)}`;
  return `${sign}$${compact(amount)}`;
}

// $12.85/min.
export const usdPerMinute = (number) => `${usd(number)}/min`;

// The cost of refused calls. A policy without prices prevents as much as one with them, but the amount is unknown.
export const NO_PRICES = "no prices configured";
export const prevented = (number) => (number > 0 ? usd(number) : NO_PRICES);

export const ms = (moment) => (typeof moment === "number" ? moment : Date.parse(moment));

// 420 ms, 3.2 s, 45 s, 1 min 5 s, 12 min, 1 h 5 min, 2 d 3 h, 12 d.
export function span(milliseconds) {
  const length = Math.abs(milliseconds);
  if (length < S - 0.5) return `${Math.round(length)}${SPACE}ms`;
  if (length < 9.95 * S) return `${(length / S).toFixed(1).replace(/\.0$/, "")}${SPACE}s`;
  if (length < 59.5 * S) return `${Math.round(length / S)}${SPACE}s`;
  if (length < 10 * MIN) return both(Math.round(length / S), 60, "min", "s");
  if (length < 59.5 * MIN) return `${Math.round(length / MIN)}${SPACE}min`;
  if (length < D) return both(Math.round(length / MIN), 60, "h", "min");
  if (length < 10 * D) return both(Math.round(length / H), 24, "d", "h");
  return `${count(Math.round(length / D))}${SPACE}d`;
}

function both(number, base, large, small) {
  const rest = number % base;
  return `${Math.floor(number / base)}${SPACE}${large}${rest ? ` ${rest}${SPACE}${small}` : ""}`;
}

// just now, 42 s ago, 2 min ago, 5 h ago, yesterday 14:05, Mon 14:05, Nov 3 14:05, Nov 3, 2024; future times likewise.
export function relative(moment, now = Date.now()) {
  const at = ms(moment);
  const passed = now - at;
  const length = Math.abs(passed);
  if (length < 5 * S) return "just now";
  const near = length < MIN ? `${Math.floor(length / S)}${SPACE}s` : length < H ? `${Math.floor(length / MIN)}${SPACE}min` : length < 12 * H ? `${Math.floor(length / H)}${SPACE}h` : "";
  if (near) return passed > 0 ? `${near} ago` : `in ${near}`;
  const days = daysBetween(at, now);
  if (days === 0) return `today ${TIME.format(at)}`;
  if (days === 1) return `yesterday ${TIME.format(at)}`;
  if (days === -1) return `tomorrow ${TIME.format(at)}`;
  if (Math.abs(days) < 7) return `${WEEKDAY.format(at)} ${TIME.format(at)}`;
  if (new Date(at).getFullYear() === new Date(now).getFullYear()) return `${DAY.format(at)} ${TIME.format(at)}`;
  return DATE.format(at);
}

// Calendar days, whatever their length.
function daysBetween(at, now) {
  const day = (time) => Date.UTC(new Date(time).getFullYear(), new Date(time).getMonth(), new Date(time).getDate());
  return (day(now) - day(at)) / D;
}

// Updated while the page is open.
export function ago(moment) {
  const made = time(ms(moment), relative(moment));
  made.dataset.ago = "";
  return made;
}

setInterval(() => {
  for (const one of document.querySelectorAll("time[data-ago]")) {
    const text = relative(one.dateTime);
    if (one.textContent !== text) one.textContent = text;
  }
}, 10 * S);

export function moment(value) {
  const at = ms(value);
  return time(at, `${DATE.format(at)} ${CLOCK.format(at)}`);
}

export const clock = (moment) => CLOCK.format(ms(moment));

function time(at, text) {
  const iso = new Date(at).toISOString();
  return h("time", { datetime: iso, title: `${ZONE.format(at)} (${iso})` }, text);
}

// A reason such as "loop_detected, 3 deletes on x" as a sentence.
export function prose(reason) {
  const text = (reason ?? "").replace(/\bin (\d+)s\b/g, "in $1\u00a0s");
  const [, code, rest] = /^([a-z]+(?:_[a-z]+)+), (.+)$/s.exec(text) ?? [];
  return code ? `${words(code)}: ${rest}` : text;
}

// A code such as "loop_detected" in words.
export const words = (code) => (code.charAt(0).toUpperCase() + code.slice(1)).replaceAll("_", " ");
