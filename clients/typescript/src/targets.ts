/** The targets of a call that control entries can name: the same as the Python package's `Call.match_targets`. */

import { isLonger } from "./redaction/unicode.js";

const MAX_SIMPLE_CHARS = 512;
const TOO_BIG = 2n ** BigInt(MAX_SIMPLE_CHARS);

/** Returns `name=value` of simple arguments, as Python writes them. */
export function simpleTargets(args: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(args).flatMap(([name, value]) => (isSimple(value) ? [`${name}=${shown(value)}`] : []));
}

/** Returns whether it is a short text, a boolean or an integer. */
export function isSimple(value: unknown): value is string | number | bigint | boolean {
  if (typeof value === "string") return !isLonger(value, MAX_SIMPLE_CHARS);
  if (typeof value === "bigint") return -TOO_BIG < value && value < TOO_BIG;
  return typeof value === "boolean" || Number.isInteger(value);
}

function shown(value: string | number | bigint | boolean): string {
  return typeof value === "boolean" ? (value ? "True" : "False") : String(value);
}
