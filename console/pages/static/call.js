// A tool call as text.
import { facts, h, json, mono } from "./dom.js";

const VALUE = 80; // characters of one argument
const WHOLE = 220; // characters of all arguments

// The arguments: an object, or its JSON text, which may be truncated.
export function parsed(args) {
  if (typeof args !== "string") return args ?? null;
  try {
    return args ? JSON.parse(args) : null;
  } catch {
    return args;
  }
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}\u2026` : text);
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const pairs = (args) => (isObject(args) ? Object.entries(args).map(([name, value]) => `${name}=${cut(JSON.stringify(value), VALUE)}`).join(", ") : args === null ? "" : typeof args === "string" ? args : JSON.stringify(args));

// delete_asset(asset_id="fact_sales", attempt=2)
export function call(action, args) {
  const given = parsed(args);
  return mono([action || "(no action)", given !== null && [h("span", { class: "dim" }, "("), cut(pairs(given), WHOLE), h("span", { class: "dim" }, ")")]], { class: "mono call" });
}

// Each argument in full, with its line breaks.
export function listed(args) {
  const value = parsed(args);
  if (!isObject(value)) return value === null ? h("p", { class: "dim" }, "None.") : json(value);
  const entries = Object.entries(value);
  if (!entries.length) return h("p", { class: "dim" }, "None.");
  return facts(entries.map(([name, one]) => [mono(name), one !== null && typeof one === "object" ? json(one) : mono(one === "" ? '""' : String(one), { class: "mono whole" })]));
}

// Whether `call` leaves something out.
export function isCut(args) {
  const value = parsed(args);
  return pairs(value).length > WHOLE || (isObject(value) && Object.values(value).some((one) => JSON.stringify(one).length > VALUE));
}
