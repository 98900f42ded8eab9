// The problems banner of every page. It can be folded to one line, and stays until the problem is over.
import { fill, h, mono } from "./dom.js";
import { ago, clock } from "./say.js";

const FOLDED = "haltline.folded";
const shown = new Map();

// A fold applies to one problem: when it recurs, the banner is unfolded again.
// The age of the pages' data changes with every check.
const keyOf = (of) => (of.part === "console" ? of.part : `${of.part}@${of.since}`);
const folds = () => JSON.parse(sessionStorage.getItem(FOLDED) ?? "{}");

export function draw(place, problems) {
  const parts = new Set(problems.map((of) => of.part));
  for (const [part, one] of shown) {
    if (parts.has(part)) continue;
    one.remove();
    shown.delete(part);
  }
  for (const of of problems) {
    const text = JSON.stringify(of);
    const before = shown.get(of.part);
    if (before?.of === text) continue; // a screen reader announces it once
    const made = banner(of);
    made.of = text;
    if (before) before.replaceWith(made);
    else if (of.urgency === "critical") place.prepend(made);
    else place.append(made);
    shown.set(of.part, made);
  }
}

function banner(of) {
  const more = h(
    "div",
    { class: "banner-more" },
    h("ol", {}, of.steps.map((step) => h("li", {}, step.text, step.command && [" ", mono(step.command, { class: "mono command" })]))),
    of.runbook && h("p", {}, "More: ", mono(of.runbook), " in haltline's repository."),
  );
  const what = h("span", {}, " ", of.what);
  const toggle = h("button", { type: "button", class: "quiet" });
  const made = h(
    "div",
    { class: `banner ${of.urgency}`, data: { part: of.part } },
    h("div", { class: "banner-line" }, h("p", { role: "alert" }, h("strong", {}, of.title, "."), what), h("span", { class: "since" }, "since ", clock(of.since), ", ", ago(of.since)), toggle),
    more,
  );
  const fold = (isFolded) => {
    what.hidden = more.hidden = isFolded;
    toggle.setAttribute("aria-expanded", String(!isFolded));
    fill(toggle, isFolded ? "What to do" : "Fold");
  };
  fold(folds()[keyOf(of)] ?? (of.urgency !== "critical" || matchMedia("(max-width: 640px)").matches));
  toggle.addEventListener("click", () => {
    const isFolded = !more.hidden;
    sessionStorage.setItem(FOLDED, JSON.stringify({ ...folds(), [keyOf(of)]: isFolded }));
    fold(isFolded);
  });
  return made;
}
