/** Texts in place of a secret: variables, templates, attributes, and placeholders of documentation. */

import { CODE, CONSTANT, COUNT, IDENTIFIER, IN_ADDRESS, IN_FORM, PLACEHOLDER, TEMPLATE } from "./tables.js";

const FORM_CHARS = 200;

const OF_CODE = new RegExp(`^(?:${CODE})`, "u");
const OF_COUNTS = new RegExp(COUNT, "u");
const OF_IDENTIFIERS = new RegExp(`^(?:${IDENTIFIER})`, "u");
const OF_PLACEHOLDERS = new RegExp(`^(?:${PLACEHOLDER})`, "i");
const OF_CONSTANTS = new RegExp(`^(?:${CONSTANT})`, "u");
const OF_FORMS = new RegExp(IN_FORM, "u");
const OF_ADDRESSES = new RegExp(`^(?:${IN_ADDRESS})$`, "u");
const OF_TEMPLATES = new RegExp(`^(?:${TEMPLATE})$`, "u");

/** Returns whether the value under a secret's name is no secret. */
export function isStandIn(value: string, name: string, quoted: boolean): boolean {
  const bare = value.replace(/^[():.,]+|(?<![():.,])[():.,]+$/g, "").toLowerCase();
  if (OF_CODE.test(value) || bare === name || bare === name.replaceAll("_", "")) return true;
  if (name === "token" && OF_COUNTS.test(value)) return true;
  return (!quoted && OF_IDENTIFIERS.test(value)) || OF_PLACEHOLDERS.test(value) || OF_CONSTANTS.test(value);
}

/** Returns whether a text of a secret's form is a placeholder such as `sk-xxxxxxxx`. */
export function isStandInForm(secret: string): boolean {
  return secret.length <= FORM_CHARS && OF_FORMS.test(secret);
}

/** Returns whether `user:password` of an address has a password, not a variable or a template. */
export function isPasswordSet(secret: string): boolean {
  const at = secret.indexOf(":");
  return !OF_ADDRESSES.test(at < 0 ? "" : secret.slice(at + 1));
}

/** Returns whether a field's whole value is a variable or a template. */
export function isTemplate(value: string): boolean {
  return OF_TEMPLATES.test(value);
}
