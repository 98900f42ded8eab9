/** Which calls only read, by the names of their tools: those that are made while the service does not answer. */

/** The patterns of `read` in haltline's description of tools, schemas/tools.toml; a test compares the two. */
export const READS: readonly string[] = [
  "get_*", "list_*", "read_*", "search_*", "find_*", "describe_*", "show_*", "view_*", "fetch_*", "read", "grep", "glob", "ls",
];

const READING = new RegExp(`^(?:${READS.map((glob) => glob.replaceAll("*", ".*")).join("|")})$`, "s");

/** Returns whether a tool with this name only reads: `mcp__warehouse__getTable` is also `get_table`. */
export function onlyReads(action: string): boolean {
  const snake = action.replace(/(?<=[a-z0-9])(?=[A-Z])/g, "_").toLowerCase().replaceAll("-", "_");
  return [action.toLowerCase(), snake, snake.split(/__|[./:]/).at(-1) ?? snake].some((name) => READING.test(name));
}
