/** Arguments, results and texts in the forms of frameworks, of models, and of JSON. */

/** Longer results are cut: no detector reads more of one. */
export const MAX_RESULT_CHARS = 1_000_000;

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

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns JSON; names of objects are sorted on request. Throws TypeError for a cycle. */
export function jsonOf(value: unknown, { sorted = false }: { sorted?: boolean } = {}): string {
  const text = JSON.stringify(value, (_, one: unknown) => {
    if (typeof one === "bigint") return String(one);
    if (typeof one === "string") return one.toWellFormed();
    if (!sorted || !isObject(one)) return one;
    return Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
  return text ?? "null";
}

/** Returns a result as it is sent: a value of JSON; long ones, and what JSON cannot say, as a text. */
export function sentResult(value: unknown): unknown {
  if (typeof value === "string") return value.slice(0, MAX_RESULT_CHARS);
  let text: string;
  try {
    text = jsonOf(value);
  } catch {
    return `<${Object.prototype.toString.call(value)}>`;
  }
  return text.length > MAX_RESULT_CHARS ? text.slice(0, MAX_RESULT_CHARS) : (JSON.parse(text) as unknown);
}

/** Returns the outcome and the text of a failure. */
export function failureOf(error: unknown): { outcome: "error" | "timeout" | "unknown"; error: string } {
  if (typeof error === "string") return { outcome: "error", error: `ToolFailed: ${error}`.slice(0, MAX_RESULT_CHARS) };
  try {
    if (!(error instanceof Error)) return { outcome: "error", error: `Error: ${String(error)}` };
    const kinds = { TimeoutError: "timeout", AbortError: "unknown" } as const; // its progress is unknown
    return {
      outcome: Object.hasOwn(kinds, error.name) ? kinds[error.name as keyof typeof kinds] : "error",
      error: `${error.name}: ${error.message}`.slice(0, MAX_RESULT_CHARS),
    };
  } catch {
    return { outcome: "error", error: "Error: <its message cannot be read>" };
  }
}
