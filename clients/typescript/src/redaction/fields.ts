/** Fields whose other fields show that they are a secret: pairs of a name and a value, input of a browser, a JWK. */

import type { Json } from "../transport.js";
import { CODES, PASSWORDS } from "./tables.js";

const PAIRS = [
  ["name", "value"], ["key", "value"], ["Name", "Value"], ["Key", "Value"], ["key", "val"], ["field", "value"],
  ["field", "content"], ["header", "value"], ["ParameterKey", "ParameterValue"], ["parameterKey", "parameterValue"],
  ["parameter", "value"], ["variable", "value"], ["setting", "value"], ["option", "value"], ["k", "v"], ["name", "default"],
] as const;
const INPUT = ["text", "value", "input", "keys"];
const PLACES = ["selector", "element", "label", "placeholder", "locator", "field", "css", "xpath", "aria-label"];
const OF_PASSWORDS = new RegExp(PASSWORDS, "i");
const OF_CODES = new RegExp(CODES, "i");
const JWK = ["d", "p", "q", "dp", "dq", "qi", "k"];

/** Returns, for fields whose own name does not show what they are, another name that does. */
export function namesOfFields(value: { readonly [name: string]: Json }): ReadonlyMap<string, string> {
  if (Object.hasOwn(value, "kty")) return new Map(JWK.map((name) => [name, "private_key"]));
  for (const [name, field] of PAIRS) {
    const named = Object.hasOwn(value, name) ? value[name] : undefined;
    if (Object.hasOwn(value, field) && typeof named === "string") {
      return new Map([[field, isCode(named, value[field]!) ? "password" : named]]);
    }
  }
  const places = PLACES.map((name) => value[name]).filter((text) => typeof text === "string");
  const isPassword = places.some((text) => OF_PASSWORDS.test(text));
  const inputs = INPUT.filter(
    (name) => Object.hasOwn(value, name) && (isPassword || places.some((text) => isCode(text, value[name]!))),
  );
  return new Map(inputs.map((name) => [name, "password"]));
}

/** Returns whether an input of this description is a code of digits. */
function isCode(place: string, item: Json): boolean {
  return OF_CODES.test(place) && /[0-9]{3}/.test(typeof item === "string" ? item : JSON.stringify(item));
}
