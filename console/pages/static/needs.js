// What needs a person now: held and killed sessions and waiting calls, each with its buttons in place.
import { answer, because, button, end, kill } from "./acts.js";
import { get, may } from "./api.js";
import { call } from "./call.js";
import { badge, empty, fill, h, link, mono, panel, path, table } from "./dom.js";
import { unfolding } from "./unfolding.js";
import { ago, ms, plural, prose, span } from "./say.js";

const STILL_MS = 1500;

export function needsPanel(all) {
  const reason = because();
  const none = h("div");
  const silent = h("p", { class: "hint" });
  const taken = () => {
    const text = reason.value;
    reason.selectedIndex = 0;
    return text;
  };
  const again = () => {
    moved_ms = 0;
    return all();
  };
  const release = (of) => (of.request_id ? answer(of.request_id, "approve", taken(), `Session ${of.id} is released.`, again) : end(of.state === "killed" ? "reset" : "lift", of, taken(), `Session ${of.id} is released.`, again));
  const stop = (of) => (of.request_id ? answer(of.request_id, "reject", taken(), `Session ${of.id} is killed.`, again) : kill(of.id, taken(), again));
  const buttons = (of) => {
    if (!may("act")) return null;
    if (of.action_name) return h("span", { class: "row" }, button("Approve", () => answer(of.id, "approve", taken(), "Approved.", again), "primary"), button("Reject", () => answer(of.id, "reject", taken(), "Rejected.", again)));
    return h("span", { class: "row" }, button("Release", () => release(of), of.ended ? "" : "primary"), of.state !== "killed" && button("Kill", () => stop(of)));
  };
  const list = unfolding(
    table(
      [
        { head: "State", class: "tight", cell: ({ of }) => [badge(of.action_name ? "asks" : of.state, of.action_name ? "warn" : undefined), of.ended && [" ", badge("ended", "plain")]] },
        { head: "Session", class: "id", cell: ({ of }) => [link(path("sessions", of.session_id), mono(of.session_id, { title: of.session_id })), h("div", { class: "dim" }, of.agent_id)] },
        { head: "Since", class: "tight", cell: ({ of }) => (of.action_name ? [ago(of.created_at), h("div", { class: "dim" }, "expires in ", span(Math.max(0, ms(of.expires_at) - Date.now())))] : ago(of.since)) },
        { head: "Why", class: "wide", cell: ({ of }) => [of.action_name && h("div", {}, call(of.action_name, of.arguments)), h("span", { class: "clamp", title: of.reason }, prose(of.reason))] },
        { head: "", class: "tight", cell: ({ of }) => buttons(of) },
      ],
      { caption: "What needs a person: held sessions, waiting calls, killed sessions" },
    ),
    ({ of }) => (of.action_name ? null : `${of.state}, ${of.code}`),
  );
  const made = panel("Needs a person", none, may("act") && h("div", { class: "row" }, h("span", { class: "dim" }, "Why"), reason), list, silent);
  let moved_ms = 0;
  list.addEventListener("pointermove", () => (moved_ms = Date.now()));
  made.look = async () => {
    const rest = moved_ms + STILL_MS - Date.now();
    if (rest > 0) return void setTimeout(() => made.look().catch(() => {}), rest); // a row must not move under a click
    const { stopped, requests, snoozed } = await get("/api/v1/attention");
    const rows = [...stopped.filter((one) => one.state !== "killed"), ...requests, ...stopped.filter((one) => one.state === "killed")];
    const nothing = rows.length === 0;
    list.hidden = nothing;
    reason.parentElement?.toggleAttribute("hidden", nothing);
    fill(none, nothing && empty("Nothing needs a person.", "No session is held, no call waits, and each session that haltline killed in the last day was looked at."));
    fill(silent, snoozed > 0 && [plural(snoozed, "incident"), " snoozed: ", link("/incidents", "show"), "."]);
    list.update(rows.map((one) => (one.action_name ? { key: one.id, of: one } : { key: one.session_id, of: { ...one, scope: "session", id: one.session_id } })));
  };
  return made;
}
