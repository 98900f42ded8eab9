/** Which calls only read, by the names of their tools: those that are made while the service does not answer. */

/** The patterns of `read` and `destructive` in haltline's description of tools, schemas/tools.toml; a test compares them. */
export const READS: readonly string[] = [
  "get_*", "list_*", "read_*", "search_*", "find_*", "describe_*", "show_*", "view_*", "fetch_*", "read", "grep", "glob", "ls",
];

export const DESTROYS: readonly string[] = [
  "delete_*", "drop_*", "truncate_*", "destroy_*", "purge_*", "wipe_*", "erase_*", "*_delete", "*_drop", "bulk_delete*", "batch_delete*",
  "hard_delete*", "delete", "drop", "truncate", "destroy", "purge", "wipe",
  "*_and_delete", "*_and_delete_*", "*_and_drop", "*_and_drop_*", "*_and_truncate", "*_and_truncate_*", "*_and_destroy", "*_and_destroy_*",
  "*_and_purge", "*_and_purge_*", "*_and_wipe", "*_and_wipe_*", "*_and_erase", "*_and_erase_*",
];

const [READING, DESTROYING] = [READS, DESTROYS].map((globs) => {
  return new RegExp(`^(?:${globs.map((glob) => glob.replaceAll("*", ".*")).join("|")})$`, "s");
}) as [RegExp, RegExp];

/** Returns whether a tool with this name only reads: `mcp__warehouse__getTable` is also `get_table`. */
export function onlyReads(action: string): boolean {
  const snake = action.replace(/(?<=[a-z0-9])(?=[A-Z])/g, "_").toLowerCase().replaceAll("-", "_");
  const names = [action.toLowerCase(), snake, snake.split(/__|[./:]/).at(-1) ?? snake];
  return names.some((name) => READING.test(name)) && !names.some((name) => DESTROYING.test(name));
}
