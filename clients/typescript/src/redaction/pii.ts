/**
 * Redaction of personal data, recognized by its form, only with `redactPii`. Each is replaced by its kind and a short
 * digest, so that different persons stay distinct.
 */

import type { Json } from "../transport.js";
import { blake2b } from "./blake2b.js";
import { fromEntries } from "./secrets.js";
import { wellFormed } from "./unicode.js";

// Python's re.ASCII: \w and \d are those of JavaScript.
const EMAIL = /(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9])/g;
const SSN = /(?<![\w.-])(?!000|666|9)\d{3}-(?!00)\d\d-(?!0000)\d{4}(?![\w-])/g;
const CARD = /(?<![\w.-])[2-6]\d{3}(?:[ -]?\d{2,6}){2,4}(?![\w-])/g;
const PHONE = /(?<![\w.-])(?:\+?1[ .-])?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?![\w-])/g;
const FORMS: readonly (readonly [string, RegExp])[] = [
  ["email", EMAIL],
  ["us_ssn", SSN],
  ["credit_card", CARD], // before telephone numbers, as some cards' digits are grouped like one
  ["phone_us", PHONE],
];
const KEY_LIKE =
  /(?<![\p{L}\p{N}_/+=-])(?=[A-Za-z_-]*\p{Nd})(?=[\p{Nd}_-]*[A-Za-z])[A-Za-z0-9]{2,8}[_-][A-Za-z0-9]{24,128}(?![\p{L}\p{N}_/+=-])/gu;

/** Returns whether it has 14 to 19 digits with a valid Luhn check digit, and only one kind of separator. */
function isCardNumber(text: string): boolean {
  const digits = [...text].filter((one) => /[0-9]/.test(one)).map(Number);
  if (digits.length < 14 || digits.length > 19 || (text.includes(" ") && text.includes("-"))) return false;
  const sum = digits.reverse().reduce((all, one, at) => all + (at % 2 ? 2 * one - (one > 4 ? 9 : 0) : one), 0);
  return sum % 10 === 0;
}

/** Returns the text with `[redacted:kind:digest]` in place of personal data. */
export function withoutPiiText(text: string, key: Uint8Array): string {
  const instead = (kind: string, found: string) =>
    `[redacted:${kind}:${blake2b(Buffer.from(wellFormed(found)), 4, key.subarray(0, 64))}]`;
  for (const [kind, form] of FORMS) {
    if (kind === "email" && !text.includes("@")) continue;
    text = text.replace(form, (found) => (kind === "credit_card" && !isCardNumber(found) ? found : instead(kind, found)));
  }
  return text.replace(KEY_LIKE, (found) => instead("api_key_like", found));
}

/** Returns a copy of a JSON value, without personal data in its texts and names. */
export function withoutPii(value: Json, key: Uint8Array): Json {
  if (typeof value === "string") return withoutPiiText(value, key);
  if (Array.isArray(value)) return value.map((item) => withoutPii(item, key));
  if (typeof value !== "object" || value === null) return value;
  return fromEntries(Object.entries(value).map(([name, item]) => [withoutPiiText(name, key), withoutPii(item, key)]));
}
