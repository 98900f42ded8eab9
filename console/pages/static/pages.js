import { get } from "./api.js";
import { empty, fill, h, problem } from "./dom.js";
import { latest } from "./live.js";
import { count } from "./say.js";

const PAGE = 50;

// The rows of a route in pages. `filters` returns its parameters, which are in the address too, as is the page;
// `unmatched` and `unfilled` are the texts of an empty table. `beside` starts what else is fetched for the same
// filters, and resolves to a function that draws it, after the rows.
export function paged(name, { query, filters, table, keyOf, unmatched, unfilled, beside }) {
  const none = h("div");
  const failed = h("div");
  const pages = h("div", { class: "row" });
  let skip = Number(query.get("skip")) || 0;
  const turn = latest();
  const refresh = async () => {
    const isLast = turn();
    const asked = filters();
    const shown = new URLSearchParams({ ...asked, ...(skip ? { skip } : {}) }).toString();
    history.replaceState(null, "", shown ? `?${shown}` : location.pathname);
    try {
      const others = beside?.(asked);
      others?.catch(() => {}); // reported below; for a search with many matches, it takes longer than the rows
      const found = await get(`/api/v1/${name}`, { ...asked, skip, limit: PAGE });
      if (!isLast()) return;
      const rows = found[name];
      fill(failed);
      table.hidden = !rows.length;
      fill(none, !rows.length && empty(...(Object.keys(asked).length ? unmatched : unfilled)));
      table.update(rows.map((of) => ({ key: keyOf(of), of })));
      fill(pages, pager(found, rows.length, go));
      const draw = await others;
      if (isLast()) draw?.();
    } catch (error) {
      fill(failed, problem(error, refresh));
    }
  };
  const go = (to) => {
    skip = to;
    return refresh();
  };
  return { none, failed, pages, refresh, restart: () => go(0), isFirst: () => skip === 0 };
}

// The place of a page in a list, and buttons for the pages beside it; `go` shows the one that begins after so many.
const pager = ({ total, skip, limit, more }, shown, go) => [
  total > 0 && h("span", { class: "dim" }, `${count(skip + 1)} to ${count(skip + shown)} of ${count(total)}${more ? "+" : ""}`),
  skip > 0 && h("button", { type: "button", onclick: () => go(Math.max(0, skip - limit)) }, "Newer"),
  skip + limit < total && h("button", { type: "button", onclick: () => go(skip + limit) }, "Older"),
];
