// What a page shows when it cannot show what its address names.
import { h, link, problem } from "./dom.js";
import { everything } from "./find.js";

// By page: what its address names one of.
const ONE = { sessions: "Session", interventions: "Intervention", incidents: "Incident", approvals: "Approval request" };

export function failure(error, page, id, again) {
  if (error.status === 404 && id && page in ONE)
    return h(
      "section",
      { class: "panel failure", role: "alert" },
      heading(`${ONE[page]} not found`),
      h("p", {}, "There is no ", ONE[page].toLowerCase(), " with the id ", h("code", {}, id), ". The id may be misspelt, or its records are no longer kept."),
      h("p", { class: "row" }, link(everything(id), "Search for this id", { class: "button" }), link(`/${page}`, `All ${page}`, { class: "button" })),
    );
  if (error.status === 403)
    return h(
      "section",
      { class: "panel failure", role: "alert" },
      heading("Not allowed"),
      h("p", {}, "Your role does not allow this: ", error.message, "."),
      h("p", { class: "row" }, link("/fleet", "To the fleet", { class: "button" })),
    );
  return problem(error, again);
}

// Beside what a page already shows it is a part of it.
const heading = (text) => h(document.querySelector("main h1") ? "h2" : "h1", {}, text);
