import { get, post } from "../api.js";
import { badge, choose, empty, facts, field, fill, h, json, link, loading, mono, panel, path, problem, table } from "../dom.js";
import { latest } from "../live.js";
import { folded } from "../phone.js";
import { count, exact, moment, plural, span } from "../say.js";

export const title = "Audit";

const TOPICS = ["", "actions", "detections", "interventions", "feedback", "incidents", "commands", "signals", "control", "policies", "dead-letter"];
const FILTERS = ["search", "session_id", "agent_id", "topic", "by", "since", "until"];

export async function show(main, _rest, query) {
  const where = await get("/api/v1/audit");
  if (!where.table) {
    fill(
      main,
      h("div", { class: "head" }, h("h1", {}, "Audit")),
      panel(null, empty("No audit table is configured.", "Start the console with --audit-table DIR (a folder, or the URI of a table in a store), the table that haltline audit writes. Without it, the console shows what the topics still hold.")),
    );
    return;
  }
  const failed = h("div");
  const none = h("div");
  const cut = h("div");
  const values = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  const input = (name, more) => h("input", { name, type: "text", value: values[name], maxlength: "256", ...more });
  const fields = {
    search: input("search", { type: "search", id: "search", placeholder: "part of the summary or the reason" }),
    session_id: input("session_id"),
    agent_id: input("agent_id"),
    topic: choose(TOPICS.map((one) => [one, one || "any"]), values.topic),
    by: input("by", { size: "12" }),
    since: input("since", { type: "datetime-local" }),
    until: input("until", { type: "datetime-local" }),
  };
  const list = table(
    [
      { head: "When", class: "tight", cell: ({ of }) => moment(of.time) },
      { head: "Topic", class: "tight", cell: ({ of }) => of.topic },
      { head: "Kind", class: "tight", cell: ({ of }) => of.kind },
      { head: "Session", class: "id", cell: ({ of }) => of.session_id && link(path("sessions", of.session_id), mono(of.session_id)) },
      { head: "By", cell: ({ of }) => of.by ?? of.agent_id },
      { head: "What", class: "wide", cell: ({ of }) => [of.level && [badge(of.level), " "], of.summary] },
      { head: "Place", class: "tight", cell: ({ of }) => mono(`${of.partition}:${of.offset}`, { class: "mono dim" }) },
    ],
    { caption: "Audit records, the newest first", onopen: ({ of }) => open(of) },
  );
  const verified = h("div");
  fill(
    main,
    h("div", { class: "head" }, h("h1", {}, "Audit"), h("span", { class: "dim mono" }, where.table)),
    panel("Verification", h("p", {}, "Proves that no record was changed, removed, added, duplicated or reordered, or names the first that was."), h("div", { class: "row" }, h("button", { type: "button", class: "primary", onclick: () => verify() }, "Verify now"), h("span", { class: "hint" }, where.signed ? "Chains and signatures." : "Chains alone: no public key is configured (--audit-public-key).")), verified),
    failed,
    panel(
      "Search",
      h(
        "form",
        { role: "search", onsubmit: (event) => { event.preventDefault(); look(); } },
        folded(
          h(
            "div",
            { class: "row low" },
            h("div", { class: "field grow" }, h("label", { for: "search" }, "Search"), fields.search),
            field("Session", fields.session_id),
            field("Agent", fields.agent_id),
            field("Topic", fields.topic),
            field("By", fields.by),
            field("From", fields.since),
            field("To", fields.until),
            h("button", { type: "submit" }, "Search"),
          ),
        ),
      ),
      none,
      list,
      cut,
    ),
  );
  const turn = latest();
  const look = async () => {
    const isLast = turn();
    const asked = Object.fromEntries(Object.entries(fields).map(([name, one]) => [name, one.value.trim()]).filter(([, value]) => value));
    history.replaceState(null, "", Object.keys(asked).length ? `?${new URLSearchParams(asked)}` : location.pathname);
    for (const name of ["since", "until"]) if (asked[name]) asked[name] = new Date(asked[name]).toISOString();
    fill(none, loading("Searching"));
    try {
      const found = await get("/api/v1/audit/records", { ...asked, limit: 200 });
      if (!isLast()) return;
      fill(failed);
      list.hidden = !found.records.length;
      fill(none, !found.records.length && empty("No records match.", "The sink writes records a few seconds after they are published."));
      list.update(found.records.map((of) => ({ key: `${of.topic}:${of.partition}:${of.offset}`, of })));
      fill(cut, found.more && h("p", { class: "hint" }, `These are the newest ${count(found.records.length)}; narrow the search for others.`));
    } catch (error) {
      fill(none);
      fill(failed, problem(error, look));
    }
  };
  const verify = async () => {
    fill(verified, loading("Verifying every row"));
    try {
      const reply = await post("/api/v1/audit/verify");
      fill(
        verified,
        h("p", { class: reply.ok ? "well" : "problem", role: "status", id: "verdict" }, reply.ok ? `${reply.verdict === "verified" ? "Verified" : "Intact, unsigned"}: ${exact(reply.rows)} ${reply.rows === 1 ? "row" : "rows"} of ${plural(reply.partitions, "partition")} are as they were written${reply.verdict === "verified" ? "" : ", unless the whole table was rewritten"}.` : `Not intact: ${plural(reply.problems.length, "problem")}.`),
        reply.problems.slice(0, 50).map((one) => h("p", {}, mono(`${one.place}${one.offset === null ? "" : ` at offset ${one.offset}`}`), `: ${one.what}`)),
        facts([
          ["Valid signatures", where.signed ? exact(reply.checkpoints) : "not checked: no public key"],
          ["Not signed yet", `${exact(reply.unsigned)} ${reply.unsigned === 1 ? "row" : "rows"}`],
          ["Erased on purpose", plural(reply.erased, "row")],
          ["Took", span(reply.took_ms)],
        ]),
      );
    } catch (error) {
      fill(verified, problem(error, verify));
    }
  };
  const open = async (of) => {
    const close = () => dialog.close();
    const dialog = h(
      "dialog",
      { class: "wide", "aria-label": of.kind, onclose: () => dialog.remove() },
      h("div", { class: "stack" }, h("h2", {}, of.summary), facts(Object.entries(of).filter(([name, value]) => !["summary", "record"].includes(name) && value !== null).map(([name, value]) => [name, mono(String(value))])), of.record !== null && json(of.record), h("div", { class: "row end" }, h("button", { type: "button", class: "primary", onclick: close }, "Close"))),
    );
    document.body.append(dialog);
    dialog.showModal();
  };
  await look();
}
