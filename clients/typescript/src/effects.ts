/**
 * The effect of a tool by its name, for the fail policy. The words are those of the Python package
 * (schemas/tool_names.py), which writes `test/vectors.json` to check that both agree.
 */

import { ENDING_TURNS, FOREIGN_VERBS, IN_OTHER_LETTERS, SHOWS } from "./verbs.js";
import { EFFECTS, type Effect } from "./transport.js";

function list(words: string): ReadonlySet<string> {
  return new Set(words.trim().split(/\s+/));
}

/** Verbs of destruction at any place in a name. */
const DESTROYS = list(`
  delete del drop truncate destroy purge wipe erase remove rm rmdir rmtree unlink nuke obliterate annihilate
  eradicate expunge shred zap trash decommission deprovision teardown deregister unregister deletion deleting
  removal dropping destruction uninstall undeploy dispose discard supprimer effacer eliminar borrar excluir
  eliminare cancella loeschen entfernen
`);
/** Verbs of destruction only at the beginning: `clear_table`, not `is_clear`. */
const DESTROYS_IN_FRONT = list(`
  archive clear cleanup empty flush prune evict retire scrub expire reset terminate overwrite vacuum
`);
const PHRASES = ["get_rid_of", "to_trash", "tear_down", "clean_up"];
const BEFORE_ALL = ["get_rid_of", "format_disk", "format_drive", "format_volume", "kill_table", "kill_database", "kill_asset"];
/** Leading verbs that make the rest an object: `list_delete_requests`. */
const HARMLESS = list(`
  get list read search find describe show view fetch count check query select is has can may should preview
  plan simulate validate verify test estimate explain ask suggest undelete undrop restore recover revert undo
  unarchive cancel create add insert write make generate send notify log watch wait poll open export download
  render format parse grep glob lookup monitor audit review think compare diff prevent protect disable edit
  save dry await inspect analyze todo
`);
const MODIFIERS = list(`
  safe safely soft hard force forced bulk batch mass multi permanently permanent quick fast async do try admin
  api auto really just smart secure tool my perform exec execute run v1 v2 v3 sync all fully internal please
`);
/** Objects that are no loss with a weak verb (`clear_cache`, `remove_filter`). */
const RECREATABLE = list(`
  cache caches screen console terminal selection filter filters highlight highlights clipboard formatting
  input form field whitespace duplicates background breakpoint breakpoints label labels tag tags reaction
  reactions watch watcher reviewer assignee prefix suffix punctuation stopwords noise outliers html timer
  alarm todo todos context memory conversation chat history cookies logs output canvas markers password
  session state zoom search marks editor view tmp temp call thread mock mocks counter counters
`);
const WEAK = new Set([...DESTROYS_IN_FRONT, "remove", "discard", "dispose", "trash", "unlink", "del"]);
const RUN_TOGETHER = new RegExp(
  "^(delete|destroy|truncate|purge|remove|erase|wipe|drop|nuke|unlink|flush)" +
    "(?:all|asset|table|file|folder|dir|record|row|user|database|db|bucket|index|dataset|collection|object|schema)s?$",
);
/** Small letters of other alphabets that look like Latin ones, and these. */
const LOOKS_LIKE: ReadonlyMap<string, string> = new Map([
  ...alike(
    "\u0430\u0435\u0456\u043e\u0440\u0441\u0443\u0445\u0455\u0501\u0458\u04bb\u0261\u04cf\u043a\u043c\u0442\u0432\u043d\u03b5\u03bf\u03c1\u03b9\u03ba\u03bd\u03c5\u03c4\u03b1\u03b2\u0269\u0131\u0259\u0251\u0578\u057d\u0581\u029f",
    "aeiopcyxsdjhglkmtbheopiknvtabiieanugl",
  ),
  ...Object.entries({ ß: "ss", ł: "l", ø: "o", đ: "d", æ: "ae", œ: "oe" }),
]);
const DIGITS_AS_LETTERS = alike("01345@$", "oieasas");
const MAX_NAME_CHARS = 512;

const DESTRUCTIVE = globs(
  "delete_* drop_* truncate_* destroy_* purge_* wipe_* erase_* *_delete *_drop bulk_delete* batch_delete* hard_delete*",
  "delete drop truncate destroy purge wipe erase",
);
const READS = globs(
  "get_* list_* read_* search_* find_* describe_* show_* view_* fetch_* read grep glob ls",
);
/** Tools that do not execute their input: a long text is data. */
const KEEPS = globs(
  "write* create_* edit* multi_edit multiedit notebook_edit str_replace* save_* add_* insert_* upload_* todo* think*",
  "say* send_message* task",
);

/** Returns the effect of a tool by its name, raised by the hint; `exec` for an unknown name. */
export function knownEffect(action: string, hint?: Effect): Effect {
  const names = namesOf(action);
  let known: Effect | undefined;
  if (names.some((name) => DESTRUCTIVE.test(name))) known = "destructive";
  else if (names.some((name) => READS.test(name))) known = "read";
  else if (destroyingVerb(action)) known = "destructive";
  if (known === undefined) return hint ?? "exec";
  return hint !== undefined && EFFECTS.indexOf(hint) > EFFECTS.indexOf(known) ? hint : known;
}

export function onlyLooks(effect: Effect): boolean {
  return EFFECTS.indexOf(effect) <= EFFECTS.indexOf("poll");
}

/** Returns whether a tool certainly does not execute its input: it only reads, or stores a text. */
export function onlyKeeps(action: string, effect: Effect): boolean {
  return effect === "read" || (effect === "exec" && namesOf(action).some((name) => KEEPS.test(name)));
}

/** Returns the forms of a tool's name to match: `mcp__warehouse__dropTable` is also `drop_table`. */
export function namesOf(action: string): string[] {
  const snake = action.replace(/(?<=[a-z0-9])(?=[A-Z])/g, "_").toLowerCase().replaceAll("-", "_");
  return [action.toLowerCase(), snake, lastPart(snake)];
}

const FOREIGN = new Set(FOREIGN_VERBS);

/** Returns the destroying verb in a tool's name; empty without one. */
export function destroyingVerb(action: string): string {
  if ([...action].length > MAX_NAME_CHARS) return "";
  const plain = action.normalize("NFC").toLowerCase();
  const piece = /^[\x00-\x7f]*$/.test(action) ? undefined : IN_OTHER_LETTERS.find((one) => plain.includes(one));
  if (piece !== undefined) return SHOWS.some((one) => plain.includes(one)) ? "" : piece;
  const name = folded(action);
  const last = lastPart(name.trim());
  let found = verb(words(last));
  if (found === undefined && last !== name) found = verb(words(name));
  if (!found && /[a-z][013457@$][a-z]/.test(name.toLowerCase())) {
    const low = name.toLowerCase();
    found =
      verb(words(translate(low, DIGITS_AS_LETTERS))) ||
      verb(words(translate(low.replaceAll("1", "l"), DIGITS_AS_LETTERS)));
  }
  return found ?? "";
}

/** Returns the verb; empty: another one; undefined: unknown. */
function verb(parts: readonly string[]): string | undefined {
  let at = 0;
  while (at < parts.length - 1 && MODIFIERS.has(parts[at] ?? "")) at++;
  const lead = parts[at] ?? "";
  const rest = parts.slice(at + 1);
  const joined = parts.join("_");
  if (BEFORE_ALL.some((phrase) => joined.startsWith(phrase))) return lead === "get" ? "get_rid_of" : `${lead}_${rest[0]}`;
  if (HARMLESS.has(lead)) return "";
  const phrase = PHRASES.find((one) => joined.includes(one));
  if (phrase !== undefined) return phrase;
  const runTogether = RUN_TOGETHER.exec(lead);
  if (runTogether !== null) return runTogether[1];
  const found = DESTROYS_IN_FRONT.has(lead) ? lead : parts.find((word) => DESTROYS.has(word) || FOREIGN.has(word));
  if (found === undefined) return undefined;
  const about = found === lead ? rest : parts.filter((word) => word !== found);
  const isHarmless = about.some((word) => RECREATABLE.has(word)) || (DESTROYS_IN_FRONT.has(found) && !about.length);
  return WEAK.has(found) && isHarmless ? "" : found;
}

/** Returns the words of a name in lower case: `dropTable`, `drop-table` and `DROP TABLE` are `drop`, `table`. */
function words(name: string): string[] {
  const split = folded(name).replace(/(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/g, "_");
  return split.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean);
}

/** Returns the name as displayed: without marks and invisible characters, in the letters that it looks like. */
function folded(name: string): string {
  if (/^[\x00-\x7f]*$/.test(name)) return name;
  const shown = name.normalize("NFKD").replace(/[\p{Mn}\p{Cf}\p{Cc}]/gu, "");
  return Array.from(shown, (char) => {
    const same = translate(char.toLowerCase(), LOOKS_LIKE);
    return /^\p{Lu}/u.test(char) ? same.toUpperCase() : same;
  }).join("");
}

function lastPart(name: string): string {
  return name.split(/__|[./:]/).at(-1) ?? name;
}

function alike(from: string, to: string): ReadonlyMap<string, string> {
  const letters = [...to];
  return new Map([...from].map((letter, at) => [letter, letters[at] ?? letter]));
}

function translate(text: string, by: ReadonlyMap<string, string>): string {
  return Array.from(text, (char) => by.get(char) ?? char).join("");
}

function globs(...listed: string[]): RegExp {
  const forms = listed.join(" ").split(" ").map((glob) => glob.replaceAll("*", ".*"));
  return new RegExp(`^(?:${forms.join("|")})$`, "s");
}

/** Whether a tool with this name ends the turn, reports, or asks the user: a held session may still call it. */
export function endsTurn(action: string): boolean {
  return ENDING_TURNS.includes(action.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, ""));
}
