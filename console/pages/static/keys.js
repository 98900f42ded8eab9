// Keyboard: one table of the keys, for handling and for the help.
import { h } from "./dom.js";

const PLACES = { f: "fleet", i: "interventions", s: "sessions", a: "approvals", k: "kill", p: "policies", d: "precision", u: "audit" };
const own = [];
let after = null;

// `what` is the text in the help; `act` gets the event. A view's keys apply until the page is left.
export function key(name, what, act) {
  own.push({ name, what, act });
}

export function listen(common) {
  const table = common;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest?.("input, textarea, select")) {
      if (event.key === "Escape") {
        event.preventDefault(); // otherwise a search field would be cleared
        event.target.blur();
      }
      return;
    }
    if (after === "g") {
      after = null;
      const place = PLACES[event.key];
      if (place) location.assign(`/${place}`);
      return;
    }
    if (event.key === "g") {
      after = "g";
      setTimeout(() => (after = null), 1500);
      return;
    }
    if (event.key === "j" || event.key === "k") {
      move(event.key === "j" ? 1 : -1);
      return;
    }
    const found = [...own, ...table].find((one) => one.name === event.key);
    if (found) {
      event.preventDefault();
      found.act(event);
    }
  });
}

function move(by) {
  const rows = [...document.querySelectorAll("main tr[data-key], main li[data-key]")].filter((row) => row.offsetParent !== null);
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement?.closest("[data-key]"));
  const row = rows[Math.min(rows.length - 1, Math.max(0, at + by))];
  (row.tabIndex >= 0 ? row : (row.querySelector("a, button, input") ?? row)).focus();
}

export function showHelp(common) {
  const line = (name, what) => [h("dt", {}, h("kbd", {}, name)), h("dd", {}, what)];
  const dialog = h(
    "dialog",
    { "aria-label": "Keyboard", class: "help", onclose: () => dialog.remove() },
    h("h2", {}, "Keyboard"),
    own.length > 0 && [h("h3", {}, "On this page"), h("dl", { class: "keys" }, own.map((one) => line(one.name, one.what)))],
    h("h3", {}, "Everywhere"),
    h(
      "dl",
      { class: "keys" },
      Object.entries(PLACES).map(([name, place]) => line(`g ${name}`, `go to ${place}`)),
      line("j k", "next and previous row"),
      line("Enter", "open the row"),
      common.map((one) => line(one.name, one.what)),
      line("Esc", "leave a field, close a dialog"),
    ),
    h("form", { method: "dialog", class: "row end" }, h("button", { class: "primary", autofocus: true }, "Close")),
  );
  document.body.append(dialog);
  dialog.showModal();
}
