/** A passage that a text repeats in a row, as the text of a model that degenerates does. Only the number is sent. */

const MOST_CHARS = 65_536;
const LEAST_CHARS = 120;
const CHUNK = 24;
const MIN_LETTERS = 14; // rulers, tables and columns of figures are not passages
const PLACES = 16; // a run that is shorter than the distance between two may be missed
const PERIODS = 8; // a passage can contain shorter repetitions
const LEAST_SEEN = 3;

/** Returns how often the text repeats one passage in a row, outside of code and tables; 0: not three times. */
export function repeats(whole: string): number {
  let text = Array.from(whole).slice(-MOST_CHARS).join("");
  if (text.includes("```")) text = text.replace(/```[^]*?(?:```|$)/g, " ");
  if (text.includes("|")) text = text.split("\n").filter((line) => line.split("|").length <= LEAST_SEEN - 1).join("\n");
  const plain = Array.from(text.toLowerCase().split(/\s+/u).filter(Boolean).join(" "));
  const length = plain.length;
  if (length < LEAST_CHARS) return 0;
  const joined = plain.join(""); // positions in it are those of characters only where all are in the first plane
  const chars = joined.length === length ? joined : plain.map((char) => (char.length > 1 ? "\uffff" : char)).join("");
  for (let place = PLACES - 1; place > 0; place -= 1) {
    const start = Math.floor((place * length) / PLACES);
    const chunk = chars.slice(start, start + CHUNK);
    let at = chars.lastIndexOf(chunk, start - 1);
    if (at < 0 || (chunk.match(/\p{L}/gu) ?? []).length < MIN_LETTERS) continue;
    let best = { run: 0, period: 0 };
    for (let tried = 0; at >= 0 && tried < PERIODS; tried += 1) {
      const period = start - at;
      let end = at;
      while (end + period < length && chars[end] === chars[end + period]) end += 1;
      let first = at;
      while (first > 0 && chars[first - 1] === chars[first - 1 + period]) first -= 1;
      const run = end + period - first;
      if (run - period > best.run - best.period) best = { run, period };
      at = at > 0 ? chars.lastIndexOf(chunk, at - 1) : -1;
    }
    if (best.run >= LEAST_CHARS && best.run >= LEAST_SEEN * best.period) return Math.round(best.run / best.period);
  }
  return 0;
}
