/** Secrets that do not follow their name directly: in brackets, as an argument, in XML, in pairs, in a block of YAML. */

import { matchAt } from "./forms.js";
import {
  BEFORE_ARGUMENT,
  BEFORE_ITEM,
  BEFORE_LINE,
  BEFORE_PAIR,
  BEFORE_ROW,
  BEFORE_SET,
  BEFORE_TAG,
  PLACE,
  VALUE_FIRST,
} from "./tables.js";
import { before } from "./unicode.js";

const BEFORE_CHARS = 160;
const PAIR_CHARS = 400;
const PLACES = new RegExp(PLACE, "uyd");
const NEEDED: Readonly<Record<string, RegExp>> = {
  argument: new RegExp(BEFORE_ARGUMENT, "i"),
  pair: new RegExp(BEFORE_PAIR, "i"),
  row: new RegExp(BEFORE_ROW, "u"),
  line: new RegExp(BEFORE_LINE, "u"),
  tag: new RegExp(BEFORE_TAG, "u"),
  item: new RegExp(BEFORE_ITEM, "u"),
  set: new RegExp(BEFORE_SET, "u"),
};
const FIRST = new RegExp(VALUE_FIRST, "ud");
const VALUES = ["quoted", "element", "listed", "part", "block", "below", "assigned"];

/** Returns the place of the secret whose name begins at `at` and ends before `behind`. */
export function placeOf(text: string, at: number, behind: number): readonly [start: number, end: number] | undefined {
  const found = matchAt(PLACES, text, behind);
  if (found !== null) {
    const preceding = before(text, at, BEFORE_CHARS);
    const isPlace = Object.entries(NEEDED).every(
      ([part, needed]) => found.groups?.[part] === undefined || needed.test(preceding),
    );
    const name = VALUES.find((value) => found.groups?.[value] !== undefined);
    if (isPlace && name !== undefined) return found.indices?.groups?.[name];
  }
  if ("\"'\\".includes(text[behind] ?? " ")) {
    const preceding = before(text, at, PAIR_CHARS);
    const span = FIRST.exec(preceding)?.indices?.[1];
    const first = at - preceding.length;
    if (span !== undefined) return [first + span[0], first + span[1]];
  }
  return undefined;
}
