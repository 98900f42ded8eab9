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

/** The names of the topics in use, as far as the entries that have been read tell. */
export class Topics {
  #prefix: string;
  #areKnown = false;

  constructor(private readonly configured: string) {
    this.#prefix = configured;
  }

  /** Whether these are known to be the ones in use; nothing is sent before. */
  get areKnown(): boolean {
    return this.#areKnown;
  }

  get control(): string {
    return `${this.#prefix}control`;
  }

  get interventions(): string {
    return `${this.#prefix}interventions`;
  }

  get actions(): string {
    return `${this.#prefix}actions`;
  }

  /** Returns the name in use of a topic that has the settings' prefix. */
  inUse(topic: string): string {
    return topic.replace(this.configured, () => this.#prefix);
  }

  /** Takes the value of the entry that names the sets. Throws Moved if topics other than those read are in use. */
  follow(value: Buffer | undefined): void {
    const prefix = prefixInUse(value) ?? this.#prefix;
    if (prefix !== this.#prefix) {
      this.#prefix = prefix;
      throw new Moved();
    }
    this.#areKnown = true;
  }
}
