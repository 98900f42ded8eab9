/** Arguments and texts in the forms of frameworks and models. */

/** Appends the hints to a text for the model. */
export function withHints(text: string, hints: string): string {
  return [text, hints].filter(Boolean).join("\n\n");
}

/** Returns arguments by name: those of an object, or of its JSON; anything else becomes the argument `arguments`. */
export function argumentsOf(args: unknown): Record<string, unknown> {
  if (args === undefined || args === null) return {};
  if (typeof args !== "string") return isObject(args) ? { ...args } : { arguments: args };
  let read: unknown;
  try {
    read = JSON.parse(args || "{}");
  } catch {
    return { arguments: args };
  }
  return isObject(read) ? read : { arguments: read };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns JSON with sorted names. Throws TypeError for a cycle. */
export function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_, one: unknown) => {
    if (typeof one === "bigint") return String(one);
    if (typeof one !== "object" || one === null || Array.isArray(one)) return one;
    return Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

/** Returns JSON as the Python package writes it to the model. */
export function shownJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(shownJson).join(", ")}]`;
  if (typeof value === "object" && value !== null && !("toJSON" in value)) {
    const kept = Object.entries(value).filter(([, item]) => item !== undefined);
    return `{${kept.map(([name, item]) => `${escaped(name)}: ${shownJson(item)}`).join(", ")}}`;
  }
  return escaped(typeof value === "bigint" ? String(value) : value);
}

function escaped(value: unknown): string {
  const text = JSON.stringify(value) ?? "null";
  return text.replace(/[\u007f-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
