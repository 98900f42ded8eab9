// The search box of every page: a combobox with results while typing.
import { get } from "./api.js";
import { fill, h, mono } from "./dom.js";
import { latest } from "./live.js";

const WAIT_MS = 150;
export const KINDS = { session: "Sessions", agent: "Agents", target: "Targets", tool: "Tools", incident: "Incidents", intervention: "Interventions" };

export function findBox() {
  const box = document.getElementById("find");
  const input = document.getElementById("find-q");
  const list = document.getElementById("find-list");
  const turn = latest();
  let timer = null;
  let options = [];
  let chosen = -1;

  const close = () => {
    turn(); // the answer to an earlier request is ignored
    clearTimeout(timer);
    list.hidden = true;
    options = [];
    choose(-1);
    input.setAttribute("aria-expanded", "false");
  };
  const choose = (at) => {
    chosen = at;
    for (const [number, option] of options.entries()) option.setAttribute("aria-selected", String(number === at));
    if (at < 0) input.removeAttribute("aria-activedescendant");
    else {
      input.setAttribute("aria-activedescendant", options[at].id);
      options[at].scrollIntoView({ block: "nearest" });
    }
  };
  const show = (...content) => {
    fill(list, ...content);
    options = [...list.querySelectorAll("[role=option]")];
    for (const [number, option] of options.entries()) option.id = `find-${number}`;
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    choose(-1);
  };
  const option = (to, ...content) => h("div", { role: "option", "aria-selected": "false", data: { to }, onclick: () => location.assign(to) }, content);
  const look = async () => {
    const isLast = turn();
    const q = input.value.trim();
    if (!q) return close();
    try {
      const { groups } = await get("/api/v1/search", { q, limit: 4 });
      if (!isLast()) return;
      const all = option(everything(q), `All results for "${q}"`);
      show(
        groups.map(({ kind, results }) => h("div", { role: "group", "aria-label": KINDS[kind] }, h("div", { class: "find-kind", "aria-hidden": "true" }, KINDS[kind]), results.map((one) => option(one.path, mono(one.id), h("span", { class: "dim" }, one.text))))),
        groups.length ? all : h("p", { class: "dim", role: "status" }, `Nothing matches "${q}".`),
      );
    } catch (error) {
      if (isLast()) show(h("p", { class: "problem", role: "alert" }, error.message));
    }
  };
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, WAIT_MS);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!options.length) return void look();
      const by = event.key === "ArrowDown" ? 1 : -1;
      choose((chosen + by + options.length + (chosen < 0 && by < 0 ? 1 : 0)) % options.length);
    } else if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      if (list.hidden) input.blur();
      else close();
    }
  });
  box.addEventListener("submit", (event) => {
    event.preventDefault();
    const q = input.value.trim();
    if (chosen >= 0) location.assign(options[chosen].dataset.to);
    else if (q) location.assign(everything(q));
  });
  list.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus, so the list stays open
  input.addEventListener("blur", close);
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k" && !document.querySelector("dialog[open]")) {
      event.preventDefault();
      toSearch();
    }
  });
}

export function toSearch() {
  const input = document.getElementById("find-q");
  input.focus();
  input.select();
}

export const everything = (q) => `/search?q=${encodeURIComponent(q)}`;
