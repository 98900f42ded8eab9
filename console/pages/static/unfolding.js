// A table in which rows of one name are one line that unfolds.
import { h } from "./dom.js";
import { count } from "./say.js";

const FEW = 2; // so many stay as they are

// `nameOf`: what rows have in common; null: a row of its own.
export function unfolding(made, nameOf) {
  const open = new Set();
  const { update } = made;
  made.update = (rows) => {
    const groups = new Map();
    for (const row of rows) {
      const name = nameOf(row) ?? row.key;
      groups.set(name, [...(groups.get(name) ?? []), row]);
    }
    const line = (name, of) => {
      const isOpen = open.has(name);
      const toggle = () => {
        if (!open.delete(name)) open.add(name);
        made.update(rows);
      };
      const sessions = new Set(of.map((row) => row.of.session_id ?? row.key)).size;
      return { key: `of ${name}`, line: h("button", { type: "button", class: "quiet", "aria-expanded": String(isOpen), onclick: toggle }, `${isOpen ? "\u25be" : "\u25b8"} ${name}: ${count(sessions)} sessions`) };
    };
    update([...groups].flatMap(([name, of]) => (of.length <= FEW ? of : [line(name, of), ...(open.has(name) ? of : [])])));
  };
  return made;
}
