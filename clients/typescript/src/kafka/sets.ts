// The set of topics in use. `haltline topics grow` creates one with more partitions, and names it in `control`.

/** The key of the entry of `control` that names the sets. */
export const SETS_KEY = "topics";

/** Returns the prefix of the topics in use by the entry's value; undefined if it names none. */
export function prefixInUse(value: Buffer | undefined): string | undefined {
  let found: unknown;
  try {
    found = JSON.parse(String(value));
  } catch {
    return undefined;
  }
  const prefixes: unknown = (found as { prefixes?: unknown } | null)?.prefixes;
  if (!Array.isArray(prefixes) || !prefixes.every((one) => typeof one === "string")) return undefined;
  return prefixes.at(-1) as string | undefined;
}

/** Ends a reading: others than the topics that are read are in use. */
export class Moved extends Error {}
