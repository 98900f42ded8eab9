/** Texts by code point, like in Python, and character classes with the same meaning in both languages. */

/** Python's `\w` in text. */
export const WORD = "[\\p{L}\\p{N}_]";
/** Python's `\s` in text; JavaScript's differs in U+001C to U+001F, U+0085 and U+FEFF. */
export const SPACES = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";

// Equal to ASCII letters in Python when case is ignored; Node 20 has no inline flag for it.
const ALSO: Readonly<Record<string, string>> = { i: "\u0130\u0131", s: "\u017f", k: "\u212a" };

/** Returns a pattern of letters, digits and plain punctuation that ignores case. */
export function anyCase(letters: string): string {
  return letters.replace(/[a-z]/g, (letter) => `[${letter}${letter.toUpperCase()}${ALSO[letter] ?? ""}]`);
}

/** Replaces lone surrogates, which events cannot hold, by `?`. */
export function wellFormed(text: string): string {
  return /[\ud800-\udfff]/.test(text) ? text.replace(/[\ud800-\udfff]/gu, "?") : text;
}

/** Returns the first code points. */
export function head(text: string, count: number): string {
  if (text.length <= count) return text;
  let end = 0;
  for (let taken = 0; taken < count && end < text.length; taken++) end += width(text, end);
  return text.slice(0, end);
}

/** Returns whether it has more code points. */
export function isLonger(text: string, count: number): boolean {
  return text.length > count && (text.length > 2 * count || head(text, count).length < text.length);
}

/** Returns the position `count` code points before a place, or the beginning. */
export function before(text: string, at: number, count: number): string {
  let begin = at;
  for (let taken = 0; taken < count && begin > 0; taken++) {
    const isPair = begin > 1 && isLow(text.charCodeAt(begin - 1)) && isHigh(text.charCodeAt(begin - 2));
    begin -= isPair ? 2 : 1;
  }
  return text.slice(begin, at);
}

/** Compares by code point, like Python and UTF-8; JavaScript's own order is by UTF-16 units. */
export function byCodePoint(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  for (let at = 0; at < most; at++) {
    const left = a.charCodeAt(at);
    const right = b.charCodeAt(at);
    if (left !== right) return rank(left) - rank(right);
  }
  return a.length - b.length;
}

function rank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}

function width(text: string, at: number): number {
  return isHigh(text.charCodeAt(at)) && isLow(text.charCodeAt(at + 1)) ? 2 : 1;
}

function isHigh(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

function isLow(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff;
}
