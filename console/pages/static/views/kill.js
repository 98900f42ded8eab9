import { because, end } from "../acts.js";
import { get, may, me, post } from "../api.js";
import { ask, badge, choose, empty, field, fill, h, link, mono, panel, path, problem, table, tell, why } from "../dom.js";
import { soon } from "../live.js";
import { ago, count, ms, plural, prose, span } from "../say.js";

export const title = "Kill";

// The actions of this page; `effect` describes the result for the sessions in the preview.
const ACTS = {
  kill: { text: "kill: refuse every call until it is released", button: "Kill", past: "Killed", noun: "kill", effect: "would be stopped", danger: true },
  freeze: { text: "freeze: refuse every call until it is lifted", button: "Freeze", past: "Frozen", noun: "freeze", effect: "would have every call refused" },
  contain: { text: "contain: allow reads, refuse every other call", button: "Contain", past: "Contained", noun: "containment", effect: "could only read" },
};
const SCOPES = [["session", "one session and its subagents"], ["agent", "every session of an agent"], ["mission", "every session of a mission"], ["tool", "a tool, in every session"], ["target", "a target, in every session"], ["fleet", "the whole fleet"]];
const SHOWN = 200; // sessions of a preview, and records of the control topic
const NAMED = 12;
const BACK = [["900", "15 min"], ["3600", "1 h"], ["21600", "6 h"], ["86400", "24 h"]];

export async function show(main, _rest, query) {
  const after = h("div", { class: "stack" });
  const standing = h("div");
  const reason = because();
  let killed = null;
  fill(
    main,
    h("div", { class: "head" }, h("h1", {}, "Kill, freeze or contain"), h("span", { class: "dim" }, "In force from the next action until an operator releases or lifts it.")),
    may("act") ? form(query, after, (one) => (killed = one)) : h("p", { class: "notice" }, `You are signed in as ${me.role}, which may view but not stop. Ask an operator.`),
    after,
    panel("Stopped now", may("act") && h("div", { class: "row" }, h("span", { class: "dim" }, "Why, for sessions"), reason), standing),
  );
  const refresh = async () => {
    try {
      fill(standing, listOf(await get("/api/v1/control"), refresh, reason));
    } catch (error) {
      fill(standing, problem(error, refresh));
    }
  };
  await refresh();
  const again = soon(refresh);
  return (what) => {
    if (what === "activity" || what === "detection") return;
    again();
    killed?.();
  };
}

function form(query, after, kept) {
  const act = choose(Object.entries(ACTS).map(([name, one]) => [name, one.text]), Object.hasOwn(ACTS, query.get("act")) ? query.get("act") : "kill", { id: "act" });
  const scope = choose(SCOPES.map(([value, text]) => [value, `${value}: ${text}`]), query.get("scope") ?? "session", { id: "scope" });
  const id = h("input", { id: "id", type: "text", value: query.get("id") ?? "", required: true, maxlength: "256", autocomplete: "off", spellcheck: "false" });
  const back = choose(BACK, "3600", { id: "back" });
  const reason = h("textarea", { id: "reason", rows: "2", maxlength: "4096" });
  const preview = h("button", { type: "submit" }, "Preview");
  const button = h("button", { type: "button", disabled: true });
  const message = h("div");
  const affected = h("div");
  let seen = null;
  const of = () => ({ scope: scope.value, id: scope.value === "fleet" ? "*" : id.value.trim() });
  const chosen = () => ACTS[act.value];
  const shown = () => {
    const { button: word, noun, danger } = chosen();
    const many = scope.value === "tool" || scope.value === "target" ? scope.value : seen && plural(seen.sessions.length, "session");
    button.textContent = seen ? `${word} ${many}` : word;
    button.className = danger ? "danger" : "primary";
    button.disabled = !seen;
    fill(affected, seen ? reached(seen, chosen()) : h("p", { class: "dim" }, `Preview first: it lists the sessions that the ${noun} would affect. Nothing changes yet.`));
  };
  const stale = () => {
    seen = null;
    id.disabled = scope.value === "fleet";
    shown();
  };
  for (const one of [scope, id, back]) one.addEventListener("input", stale);
  act.addEventListener("input", shown);

  const look = async () => {
    fill(message);
    const asked = of();
    if (!asked.id) {
      fill(message, h("p", { class: "problem", role: "alert" }, "Id: expected an id, got none."));
      id.focus();
      return;
    }
    preview.disabled = true;
    try {
      const lookback = back.value;
      const found = await get("/api/v1/kill/preview", { ...asked, lookback_s: lookback });
      if (asked.scope !== of().scope || asked.id !== of().id || lookback !== back.value) return; // changed meanwhile: preview again
      seen = found;
      if (found.scope !== "fleet") id.value = found.id; // the whole id for a shortened one
      shown();
    } catch (error) {
      fill(message, problem(error));
    } finally {
      preview.disabled = false;
    }
  };
  const hold = async () => {
    fill(message);
    if (!reason.value.trim()) {
      fill(message, h("p", { class: "problem", role: "alert" }, "Reason: expected a text, got none."));
      reason.focus();
      return;
    }
    const asked = of();
    const how = act.value;
    const { button: name, noun, effect, danger } = chosen();
    const word = asked.scope === "fleet" ? "fleet" : null;
    const sure = await ask({
      title: `${name} ${asked.scope} ${asked.scope === "fleet" ? "" : asked.id}`.trim(),
      text: [h("p", {}, `${plural(seen.sessions.length, "session")} of ${plural(seen.agents.length, "agent")} ${effect}.`), seen.unknown && h("p", { class: "notice" }, `No events of ${asked.scope} ${asked.id} were found. Is the id right?`), word && h("p", { class: "notice" }, "The fleet takes two operators: your request takes effect when a second operator makes the same one within 15 minutes.")],
      action: name,
      danger,
      fields: word ? [{ name: "word", label: "Type fleet", make: () => h("input", { type: "text", autocomplete: "off" }) }] : [],
    });
    if (!sure) return;
    if (word && sure.word !== word) return fill(message, h("p", { class: "problem", role: "alert" }, `Type "${word}" to confirm. Nothing was done.`));
    button.disabled = true;
    fill(after, h("p", { class: "loading", role: "status" }, "Waiting for a worker to apply it"));
    try {
      const answer = await post(`/api/v1/${how}`, { ...asked, unknown: seen.unknown, reason: reason.value.trim() });
      const result = outcome(asked, seen, answer, how);
      fill(after, result.shown);
      kept(result.refresh);
      await result.refresh?.();
    } catch (error) {
      fill(after, problem(error));
    } finally {
      stale();
      reason.value = "";
    }
  };
  button.addEventListener("click", hold);
  stale();
  const made = h(
    "form",
    { class: "stack", novalidate: true, onsubmit: (event) => { event.preventDefault(); look(); } },
    h("div", { class: "row low" }, field("Action", act), field("Scope", scope), h("div", { class: "field grow" }, h("label", { for: "id" }, "Id"), id), field("Active in the last", back), preview),
    affected,
    field("Reason", reason, "Kept in the audit with your name."),
    message,
    h("div", { class: "row" }, button),
  );
  if (id.value) look();
  return panel("What to stop", made);
}

function reached(seen, { noun, effect }) {
  if (seen.unknown) return h("p", { class: "notice" }, `No events of ${seen.scope} ${seen.id} were found. Check the id. The ${noun} would apply if it starts later; until then nothing acknowledges it.`);
  if (!seen.sessions.length) return h("p", { class: "notice" }, `No session was active in this time. The ${noun} still applies to sessions that start later, until an operator ends it.`);
  const list = table(
    [
      { head: "Session", class: "id", cell: ({ of }) => link(path("sessions", of.session_id), mono(of.session_id)) },
      { head: "Agent", class: "id", cell: ({ of }) => of.agent_id },
      { head: "Mission", class: "id", cell: ({ of }) => of.mission_id ?? "" },
      { head: "Last event", class: "tight", cell: ({ of }) => ago(of.last_ms) },
      { head: "Included as", cell: ({ of }) => (of.by_tree ? "subagent" : "") },
    ],
    { caption: `Sessions that the ${noun} would affect` },
  );
  list.update(seen.sessions.slice(0, SHOWN).map((of) => ({ key: of.session_id, of })));
  const [agents, more] = [seen.agents.slice(0, NAMED).join(", "), seen.agents.length - NAMED];
  return [h("p", { id: "preview" }, h("strong", {}, `${plural(seen.sessions.length, "session")} of ${plural(seen.agents.length, "agent")}`), ` ${effect}: ${agents}${more > 0 ? ` and ${count(more)} more` : ""}`), h("div", { class: "boxed", tabindex: "0", role: "region", "aria-label": "Affected sessions" }, list), seen.sessions.length > SHOWN && h("p", { class: "hint" }, `The ${count(SHOWN)} last active; all ${count(seen.sessions.length)} are affected.`)];
}

const nameOf = ({ scope, id }) => (scope === "fleet" ? "the fleet" : `${scope} ${id}`);
const begun = (text) => text[0].toUpperCase() + text.slice(1);

function outcome(asked, seen, answer, how) {
  const name = nameOf(asked);
  const { noun, past } = ACTS[how];
  if (answer.second_wanted) return { shown: h("p", { class: "notice", role: "status" }, `Recorded. The ${noun} of ${name} needs a second operator: nothing is stopped yet.`) };
  if (!answer.answered) return { shown: h("p", { class: "notice", role: "alert" }, `No worker answered. The ${noun} of ${name} is queued and takes effect as soon as a worker runs. Command ${answer.command_id}.`) };
  const stands = h("p", { class: "well", role: "status" }, `${begun(name)} was ${past.toLowerCase()} `, Date.now() - ms(answer.state.since) < 5000 ? "just now" : ago(answer.state.since), ".");
  if (how !== "kill") return { shown: panel(`${past}: ${name}`, stands, h("p", {}, "Every refused call receives the reason. Lift it in the list below.")) };
  const summary = h("p", { id: "stops" });
  const list = table(
    [
      { head: "Session", class: "id", cell: ({ of }) => link(path("sessions", of.session_id), mono(of.session_id)) },
      { head: "Agent", class: "id", cell: ({ of }) => of.agent_id },
      { head: "Status", cell: ({ of }) => (of.stopped ? badge("stopped", "good") : badge("not acknowledged", "warn")) },
      { head: "After", class: "num", cell: ({ of }) => (of.stopped?.took_ms != null ? span(of.stopped.took_ms) : "") },
    ],
    { caption: "Sessions that have stopped" },
  );
  const refresh = async () => {
    const acknowledged = new Map((await get("/api/v1/kill/stops", { decision_id: answer.state.decision_id })).map((one) => [one.session_id, one]));
    if (asked.scope === "session" && answer.state.stopped_at && !acknowledged.has(asked.id)) acknowledged.set(asked.id, { session_id: asked.id, agent_id: answer.state.agent_id, took_ms: answer.state.time_to_stop_ms });
    const names = new Map([...seen.sessions, ...acknowledged.values()].map((one) => [one.session_id, one.agent_id]));
    const rows = [...names].map(([session_id, agent_id]) => ({ key: session_id, of: { session_id, agent_id, stopped: acknowledged.get(session_id) } }));
    rows.sort((one, other) => Boolean(one.of.stopped) - Boolean(other.of.stopped));
    list.update(rows);
    fill(summary, `${count(acknowledged.size)} of ${plural(names.size, "session")} ${acknowledged.size === 1 ? "has" : "have"} acknowledged the stop.${acknowledged.size < names.size ? " For the others, the next call is refused and the kill is sent again." : ""}`);
  };
  return { shown: panel(`${past}: ${name}`, stands, summary, list), refresh };
}

const RELEASE = { word: "Release", way: "lift", past: "released", text: "The session can continue, on probation: another hold kills it." };
const LIFT = { word: "Lift", way: "lift", past: "no longer stopped", text: "Its calls are allowed again." };
const ENDS = { killed: { word: "Release", way: "reset", past: "released", text: "The session can continue, on probation, in a new process or with a new guard." }, frozen: LIFT, contained: LIFT };

// A session that haltline holds: a person has to look at it.
export const isHeld = (one) => one.state === "frozen" && one.scope === "session" && (one.by ?? "haltline") === "haltline";
export const endOf = (one) => (isHeld(one) ? RELEASE : ENDS[one.state]);

// Ends a scope's restriction. Beyond a session it asks for the reason.
export async function release(one, refresh, reason = "no reason given") {
  const { word, way, past, text } = endOf(one);
  if (one.scope === "session") return end(way, one, reason, `${begun(nameOf(one))} is ${past}.`, refresh);
  const reply = await ask({ title: `${word} ${one.scope} ${one.id}`, text: h("p", {}, text), action: word, fields: [why("What has changed since it was stopped. Kept in the audit with your name.")] });
  if (!reply) return;
  try {
    const answer = await post(`/api/v1/${way}`, { scope: one.scope, id: one.id, reason: reply.reason });
    tell(answer.answered ? `${begun(nameOf(one))} is ${past}.` : answer.second_wanted ? "Recorded: it needs a second operator." : "No worker answered. It takes effect as soon as a worker runs.");
    await refresh();
  } catch (error) {
    tell(error.message, "bad");
  }
}

function listOf(held, refresh, reason) {
  if (!held.length) return empty("Nothing is stopped.");
  const list = table(
    [
      { head: "State", class: "tight", cell: ({ of }) => badge(isHeld(of) ? "held" : of.state) },
      { head: "What", class: "id", cell: ({ of }) => [`${of.scope} `, of.scope === "session" ? link(path("sessions", of.id), mono(of.id)) : mono(of.id)] },
      { head: "Since", class: "tight", cell: ({ of }) => ago(of.since) },
      { head: "By", cell: ({ of }) => of.by ?? "haltline" },
      { head: "Acknowledged", cell: ({ of }) => (of.state !== "killed" || of.scope !== "session" ? "" : of.stopped_at ? ["stopped ", of.time_to_stop_ms != null && `after ${span(of.time_to_stop_ms)}`] : of.unheard ? badge("no events") : of.escalated_at ? badge("never", "bad") : badge("not yet", "warn")) },
      { head: "Why", class: "wide", cell: ({ of }) => h("span", { class: "clamp", title: of.reason }, prose(of.reason)) },
      { head: "", cell: ({ of }) => may("act") && endOf(of) && h("button", { type: "button", onclick: () => release(of, refresh, reason.value) }, endOf(of).word) },
    ],
    { caption: "Stopped now" },
  );
  const latest = [...held].reverse();
  list.update([...latest.filter(isHeld), ...latest.filter((one) => !isHeld(one))].slice(0, SHOWN).map((of) => ({ key: `${of.scope}:${of.id}`, of })));
  return [list, held.length > SHOWN && h("p", { class: "hint" }, `The latest ${count(SHOWN)} of ${count(held.length)}; haltline status lists all.`)];
}
