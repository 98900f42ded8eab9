// The content of a page whose address names something that cannot be shown.
import { h, link, problem } from "./dom.js";
import { everything } from "./find.js";

// By page: the kind of thing in its address.
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

// On a page with content, the failure is a part of it.
const heading = (text) => h(document.querySelector("main h1") ? "h2" : "h1", {}, text);
