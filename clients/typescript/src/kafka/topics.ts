// The names of the topics with a prefix, and whether they are the ones in use.

/** The key of an entry of `control` that earlier releases wrote when they moved to topics with more partitions. */
export const SETS_KEY = "topics";

/** Ends a connection: an earlier release has moved to topics with another prefix. */
export class Grown extends Error {}

export class Topics {
  constructor(private readonly prefix: string) {}

  get control(): string {
    return `${this.prefix}control`;
  }

  get interventions(): string {
    return `${this.prefix}interventions`;
  }

  get actions(): string {
    return `${this.prefix}actions`;
  }

  /** Takes the value of the entry under SETS_KEY. Throws Grown if it names topics with another prefix. */
  require(value: Buffer | undefined): void {
    let found: unknown;
    try {
      found = JSON.parse(String(value));
    } catch {
      return;
    }
    const prefixes: unknown = (found as { prefixes?: unknown } | null)?.prefixes;
    const used: unknown = Array.isArray(prefixes) ? prefixes.at(-1) : undefined;
    if (typeof used !== "string" || used === this.prefix) return;
    throw new Grown(
      `topics ${this.prefix}*: expected the ones in use, got some that an earlier release has grown to ${used}*: ` +
        `set topicPrefix ${used} (HALTLINE_PREFIX)`,
    );
  }
}
