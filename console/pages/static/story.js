// A session's story: every record in order, and the session's state at each step.
import { answer, because, button as press, end, kill } from "./acts.js";
import { get, may } from "./api.js";
import { titled } from "./attention.js";
import { badge, empty, facts, fill, h, json, link, mono, panel, path, problem, tell } from "./dom.js";
import { findingOf, irreversibleActs, levelOf, meter, thresholds } from "./findings.js";
import { key } from "./keys.js";
import { soon } from "./live.js";
import { count, exact, moment, ms, plural, span, usd } from "./say.js";
import { argumentsOf, isPlumbing, levelShown } from "./steps.js";
import { incidentTable } from "./views/incidents.js";

const WHOLE = "the whole session"; // the action of a held session's request
const AT_A_TIME = 1000;
const DRAWN = 5000; // steps that are loaded automatically; more on request
const LISTED = 300; // steps in the list at a time: thousands of elements are slow
const KEPT_FOLD = "haltline.story.signals";
const AGAIN = 5000; // events that are evaluated again
const MOST = 20000; // steps that are searched for one address
const RANK = ["ALLOW", "NUDGE", "REINFORCE", "THROTTLE", "ASK", "PAUSE", "BLOCK", "ROLLBACK", "KILL"];
const ENDED_BY = { killed: ["Release", "reset"], frozen: ["Release", "lift"], contained: ["Lift", "lift"] };

export async function story(main, id, query) {
  titled(id, "Sessions");
  const arriving = import("./swimlane.js"); // the list is usable before it is loaded
  const where = `/api/v1/sessions/${encodeURIComponent(id)}`;
  let page = await get(where, { limit: AT_A_TIME });
  let steps = page.steps;
  let frames = null;
  let chosen = 0;
  let limits = [];
  let requests = [];
  let folded = localStorage.getItem(KEPT_FOLD) !== "shown";
  let visible = []; // the numbers of the steps that are not folded
  let listed = [0, 0]; // the part of `visible` that is in the list

  const head = h("div", { class: "head" });
  const cards = h("div", { class: "cards" });
  const list = h("ol", { class: "steps", "aria-label": "Timeline" });
  const earlier = h("div");
  const more = h("div");
  let lanes = h("div");
  lanes.style.minHeight = "560px"; // so that the content below does not move
  lanes.update = lanes.choose = () => {};
  const folds = h("input", { type: "checkbox", onchange: () => fold(!folds.checked) });
  const foldsText = h("span");
  const place = h("output", { class: "mono" });
  const slider = h("input", { type: "range", min: "0", step: "1", "aria-label": "Step", oninput: () => go(visible[Number(slider.value)]) });
  const state = h("div", { class: "stack sticky" });
  const button = (text, label, to) => h("button", { type: "button", "aria-label": label, title: label, onclick: to }, text);
  const tripsOf = () => steps.flatMap((step, at) => (isTrip(step) ? [at] : []));
  const nextTrip = () => go(tripsOf().find((at) => at > chosen) ?? chosen);
  const lastTrip = () => go(tripsOf().findLast((at) => at < chosen) ?? chosen);

  const look = async () => {
    const [found, open] = await Promise.all([get("/api/v1/incidents", { session_id: id, limit: 50 }), get("/api/v1/approvals", { open_only: true, session_id: id, limit: 200 })]);
    requests = open.approvals;
    drawHead();
    incidents.hidden = found.total === 0;
    rows.update(found.incidents.map((of) => ({ key: of.incident_id, of })));
  };
  const rows = incidentTable({ caption: "Its incidents, the worst first", refresh: look, ofSession: true });
  const incidents = panel("Incidents", rows);
  incidents.hidden = true;
  look().catch((error) => tell(error.message, "bad"));

  fill(
    main,
    head,
    cards,
    incidents,
    panel("Swimlane", h("div", { class: "lane-tools" }, h("label", {}, folds, foldsText)), lanes),
    h(
      "div",
      { class: "cols even" },
      panel(
        "Timeline",
        h(
          "div",
          { class: "stepper" },
          h(
            "div",
            { class: "row" },
            button("|\u25c0", "First step", () => go(visible[0])),
            button("\u25c0", "Step back", () => beside(-1)),
            button("\u25b6", "Step forward", () => forward()),
            button("\u25b6|", "Last step", () => go(visible.at(-1))),
            button("Next trip", "Next trip", nextTrip),
          ),
          slider,
          place,
        ),
        h("div", { class: "story", tabindex: "0", role: "region", "aria-label": "Steps" }, earlier, list, more),
      ),
      state,
    ),
  );

  const drawTitle = (session) =>
    fill(
      head,
      h("h1", {}, mono(session.session_id)),
      session.state ? badge(session.state) : session.ended ? badge("ended", "plain") : null,
      h("span", { class: "dim" }, session.goal),
      may("act") && acts(session),
      session.targets_until !== null && h("p", { class: "hint" }, "It has named more targets than a search looks in: only those before ", mono(session.targets_until), " in alphabetical order find this session."),
    );
  const acts = (session) => {
    const reason = because();
    const again = () => refresh();
    const [word, way] = ENDED_BY[session.state] ?? [];
    const calls = requests.filter((of) => of.action_name !== WHOLE);
    const [hold] = requests.filter((of) => of.action_name === WHOLE);
    return h(
      "span",
      { class: "push row" },
      session.ended && h("span", { class: "dim" }, "It has ended: nothing of it runs."),
      reason,
      calls.map((of) => [press(`Approve ${of.action_name}`, () => answer(of.id, "approve", reason.value, "Approved.", again), "primary"), press("Reject", () => answer(of.id, "reject", reason.value, "Rejected.", again))]),
      word && press(word, () => (hold ? answer(hold.id, "approve", reason.value, `Session ${id} is released.`, again) : end(way, { scope: "session", id }, reason.value, `Session ${id} is ${session.state === "killed" || session.state === "frozen" ? "released" : "no longer stopped"}.`, again)), "primary"),
      session.state !== "killed" && press("Kill", () => (hold ? answer(hold.id, "reject", reason.value, `Session ${id} is killed.`, again) : kill(id, reason.value, again)), "danger"),
      link(`/kill?scope=session&id=${encodeURIComponent(id)}`, "Preview", { class: "button" }),
    );
  };
  let headed = null;
  const drawHead = () => {
    const { session } = page;
    // A button that is replaced while pressed does nothing.
    const held = JSON.stringify([session.state, session.ended, session.goal, session.targets_until, requests.map((of) => of.id)]);
    if (held !== headed) drawTitle(session);
    headed = held;
    const trips = steps.filter(isTrip).length;
    const card = (number, text, kind) => h("div", { class: `card ${kind ?? ""}` }, h("strong", {}, number), h("span", {}, text));
    fill(
      cards,
      card(session.level, "highest level", RANK.indexOf(session.level) >= RANK.indexOf("PAUSE") ? "bad" : ""),
      session.asks > 0 && card(count(session.asks), session.asks === 1 ? "question to a person" : "questions to a person", "warn"),
      card(count(session.events), "events"),
      card(count(trips), "decisions", trips ? "warn" : ""),
      card(usd(session.cost_usd), "spent"),
      card(span(ms(session.last) - ms(session.first)), ["from ", moment(session.first)]),
      h("div", { class: "card" }, h("strong", {}, link(`/sessions?agent_id=${encodeURIComponent(session.agent_id)}`, session.agent_id)), h("span", {}, ["agent", session.mission_id && `, mission ${session.mission_id}`, session.parent_session_id && [", started by ", link(path("sessions", session.parent_session_id), session.parent_session_id)]])),
    );
  };
  const fold = (on) => {
    folded = on;
    localStorage.setItem(KEPT_FOLD, on ? "folded" : "shown");
    draw();
    go(chosen);
  };
  // All parts drawn from the steps; the selected step is drawn afterwards.
  const draw = () => {
    const hidden = steps.filter(isPlumbing).length;
    if (folded && steps[chosen] && isPlumbing(steps[chosen])) chosen = steps.findLastIndex((step, at) => at < chosen && !isPlumbing(step));
    visible = steps.flatMap((step, at) => (folded && isPlumbing(step) ? [] : [at]));
    folds.checked = !folded;
    fill(foldsText, `Show feedback and signals (${count(hidden)})`);
    folds.closest(".lane-tools").hidden = hidden === 0;
    slider.max = String(Math.max(0, visible.length - 1));
    lanes.update({ steps, folded, limits, frames });
    listed = [0, 0];
  };
  const drawList = (around) => {
    const first = ms(steps[0]?.time ?? 0);
    const from = Math.max(0, Math.min(around - LISTED / 2, visible.length - LISTED));
    listed = [from, Math.min(visible.length, from + LISTED)];
    const others = (number, text, to) => number > 0 && h("button", { type: "button", onclick: () => go(visible[to]) }, `${text} (${count(number)})`);
    fill(earlier, others(listed[0], "Earlier steps", listed[0] - 1));
    fill(
      list,
      visible.slice(...listed).map((at) => {
        const step = steps[at];
        const args = argumentsOf(step);
        return h(
          "li",
          { class: `t-${step.topic}`, tabindex: "-1", data: { key: at }, onclick: () => go(at), onfocus: () => at !== chosen && go(at), onkeydown: (event) => moved(event) },
          h("span", { class: "at", title: step.time }, `+${span(ms(step.time) - first)}`),
          h("span", { class: "topic" }, step.kind.replace("action.", "")),
          h("span", { class: "what" }, step.summary, args && h("span", { class: "args mono" }, args)),
          levelOf(step),
        );
      }),
    );
    fill(more, others(visible.length - listed[1], "Later steps", listed[1]), steps.length < page.total && h("button", { type: "button", onclick: further }, `Read more of ${count(page.total)}`));
  };
  const moved = (event) => {
    const to = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!to) return;
    event.preventDefault();
    beside(to);
    list.querySelector("[aria-current]")?.focus();
  };
  const load = async () => {
    const skip = steps.length;
    page = await get(where, { skip, limit: AT_A_TIME });
    steps = [...steps.slice(0, skip), ...page.steps]; // two requests may be concurrent
  };
  const further = async () => {
    try {
      await load();
      drawHead();
      draw();
      go(chosen);
    } catch (error) {
      tell(error.message, "bad");
    }
  };
  const forward = async () => {
    if (chosen === visible.at(-1) && steps.length < page.total) await further();
    beside(1);
  };
  const beside = (by) => go(visible[Math.min(visible.length - 1, Math.max(0, visible.indexOf(chosen) + by))]);
  const go = (to) => {
    if (!steps.length) return fill(state, empty("No records of this session."));
    const before = chosen;
    chosen = Math.min(steps.length - 1, Math.max(0, to ?? 0));
    if (folded && isPlumbing(steps[chosen])) return fold(false);
    const at = visible.indexOf(chosen);
    slider.value = String(at);
    place.textContent = `${exact(at + 1)} of ${steps.length < page.total ? "the first " : ""}${exact(visible.length)}`;
    const isListed = at >= listed[0] && at < listed[1];
    if (!isListed) drawList(at);
    // Only changed elements are updated, of thousands.
    const [from, until] = isListed ? [Math.min(before, chosen), Math.max(before, chosen)] : [0, steps.length];
    for (const item of list.children) {
      const number = Number(item.dataset.key);
      if (number < from || number > until) continue;
      item.classList.toggle("chosen", number === chosen);
      item.classList.toggle("later", number > chosen);
      item.tabIndex = number === chosen ? 0 : -1;
      item.querySelector(".args")?.classList.toggle("whole", number === chosen);
      if (number === chosen) {
        item.setAttribute("aria-current", "step");
        within(item);
      } else item.removeAttribute("aria-current");
    }
    lanes.choose(chosen);
    fill(state, stateAt(), stepPanel());
  };
  // Scrolls the list only, not the page.
  const within = (item) => {
    const box = item.closest(".story");
    const top = item.offsetTop - box.offsetTop;
    if (top < box.scrollTop) box.scrollTop = top - 20;
    else if (top + item.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = top + item.offsetHeight - box.clientHeight + 20;
  };
  const stateAt = () => {
    const known = new Map();
    let level = "ALLOW";
    let holds = null;
    let cost = 0;
    let events = 0;
    for (const { topic, kind, record } of steps.slice(0, chosen + 1)) {
      if (topic === "actions") {
        events += 1;
        cost += record.usage?.cost_usd ?? 0;
      } else if (topic === "detections" && record.finding) {
        const seen = known.get(record.finding.detector) ?? { times: 0 };
        known.set(record.finding.detector, { times: seen.times + 1, finding: record.finding, mode: record.mode });
      } else if (topic === "interventions" && RANK.indexOf(levelShown(record)) > RANK.indexOf(level)) level = levelShown(record);
      else if (topic === "control") holds = kind === "cleared" ? null : kind;
    }
    const frame = frameAt();
    return panel(
      `State at step ${exact(chosen + 1)}`,
      h("div", { class: "row", id: "state" }, badge(level), holds && badge(holds), h("span", { class: "dim" }, `${plural(events, "event")}, ${usd(cost)}, ${plural(known.size, "rule")} with findings`)),
      h("h3", {}, "Findings so far"),
      known.size ? [...known].map(([rule, seen]) => findingOf(rule, seen)) : h("p", { class: "dim" }, "None."),
      frame && irreversibleActs(frames.frames.slice(0, frames.frames.indexOf(frame) + 1)),
      nearOf(frame),
    );
  };
  const frameAt = () => {
    if (!frames) return null;
    for (let at = chosen; at >= 0; at -= 1) {
      const found = steps[at].topic === "actions" && frames.byEvent.get(steps[at].record?.event_id);
      if (found) return found;
    }
    return null;
  };
  const nearOf = (frame) => {
    if (!frames) return null;
    if (frames.frames.length >= AGAIN && frame === frames.frames.at(-1)) return [h("h3", {}, "How close each rule is"), h("p", { class: "dim" }, `Only the first ${count(AGAIN)} events are replayed here; haltline replay replays all of them.`)];
    const near = Object.entries(frame?.near ?? {}).sort((one, other) => other[1] - one[1]).slice(0, 8);
    return [
      h("h3", {}, "How close each rule is"),
      near.length ? near.map(([rule, share]) => meter(rule, share, `${Math.round(share * 100)} %`)) : h("p", { class: "dim" }, frames.problem ?? "No rule is close to a finding."),
      frames.problem ? null : h("p", { class: "hint" }, `Replayed under policy ${frames.policy}, version ${frames.version}${differs(frames)}; 100 % is a finding.`),
    ];
  };
  const differs = ({ policy, version }) => {
    const then = new Set(steps.filter(isTrip).map(({ record }) => `${record.policy}, version ${record.policy_version}`));
    then.delete(`${policy}, version ${version}`);
    return then.size ? ` (decided then under ${[...then].join("; ")})` : "";
  };
  const stepPanel = () => {
    const step = steps[chosen];
    const { record } = step;
    const finding = record?.finding;
    const of = finding ?? (step.topic === "interventions" ? record : null);
    return panel(
      `Step ${exact(chosen + 1)}: ${step.kind}`,
      h("p", {}, step.summary),
      facts([
        ["When", moment(step.time)],
        ["Where", mono(`${step.topic}[${step.partition}] offset ${step.offset}`)],
        ["Action", step.topic === "actions" && record.action && mono(record.action)],
        ["Targets", step.topic === "actions" && record.targets?.length ? mono(record.targets.join(", ")) : null],
        ["Outcome", record?.outcome && badge(record.outcome, record.outcome === "ok" ? "good" : "warn")],
        ["Error", record?.error && mono(record.error)],
        ["Took", record?.duration_ms != null ? span(record.duration_ms) : null],
        ["Rule", of?.detector && link(`/policies?rule=${encodeURIComponent(of.detector)}`, mono(of.detector))],
        ["Intervention", step.topic === "interventions" && record.detector && link(path("interventions", `int_${record.decision_id}`), "Label it, adjust its rule, or act on it")],
        ["Code", record?.code ?? finding?.code],
        ["Message to the model", record?.message],
        ["Mode", record?.mode && record.mode !== "enforce" ? `${record.mode}${record.would ? `: would have been ${record.would}` : ""}` : null],
        ["Policy", of && record.policy ? `${record.policy}, version ${record.policy_version}` : null],
        ["By", record?.by],
        ["Reason", record?.reason],
      ]),
      of && thresholds(of),
      of?.evidence?.length ? [h("h3", {}, "Evidence"), evidence(of.evidence)] : null,
      Object.keys(record?.near ?? {}).length ? [h("h3", {}, "Near misses of other rules at this step"), Object.entries(record.near).sort((one, other) => other[1] - one[1]).map(([rule, share]) => meter(rule, share, `${Math.round(share * 100)} %`))] : null,
      step.topic === "actions" && record?.args !== undefined && record.args !== null ? [h("h3", {}, "Arguments"), json(record.args)] : null,
      h("details", {}, h("summary", {}, "Full record"), json(record)),
    );
  };
  const evidence = (events) =>
    h(
      "ol",
      { class: "evidence" },
      events.map((one) => {
        const at = steps.findIndex((step) => step.topic === "actions" && step.record?.event_id === one.event_id);
        return h("li", {}, at < 0 ? mono(one.event_id) : h("button", { type: "button", class: "quiet", onclick: () => go(at) }, `step ${at + 1}: ${steps[at].summary}`));
      }),
    );

  const wanted = query.get("decision");
  const placeOf = () => (wanted ? steps.findIndex((step) => step.record?.decision_id === wanted && step.topic === "interventions") : -1);
  const isFurther = () => (wanted ? placeOf() < 0 : query.has("step") ? Number(query.get("step")) > steps.length : page.session.interventions > 0 && !tripsOf().length);
  // The step of the address, or else the last trip; until either is loaded, the last loaded step.
  const goal = () => {
    const start = placeOf();
    return start >= 0 ? start : query.has("step") ? Number(query.get("step")) - 1 : (tripsOf().at(-1) ?? visible.at(-1));
  };
  drawHead();
  draw();
  go(goal());
  let shown = chosen;

  key("ArrowRight", "step forward", forward);
  key("ArrowLeft", "step back", () => beside(-1));
  key("Home", "first step", () => go(visible[0]));
  key("End", "last step", () => go(visible.at(-1)));
  key("n", "next trip", nextTrip);
  key("b", "previous trip", lastTrip);

  const again = async () => {
    const made = await get("/api/v1/replay", { session_id: id, limit: AGAIN }).catch((error) => ({ frames: [], problem: error.message }));
    frames = { ...made, progress: made.progress ?? [], byEvent: new Map(made.frames.map((frame) => [frame.event_id, frame])) };
    lanes.update({ steps, folded, limits, frames });
    go(chosen);
  };
  const { agent_id } = page.session;
  const read = async () => {
    const { swimlane } = await arriving;
    const made = swimlane({ onchoose: (at) => go(at) });
    lanes.replaceWith(made);
    lanes = made;
    lanes.update({ steps, folded, limits, frames });
    lanes.choose(chosen);
    limits = (await get("/api/v1/limits", { agent_id, session_id: id }).catch(() => ({ limits: [] }))).limits;
    for (let known = -1; steps.length > known && steps.length < Math.min(page.total, isFurther() ? MOST : DRAWN); ) {
      known = steps.length; // stops at an answer without steps: the read model is being recreated
      await load();
      if (!isFurther() && chosen === shown && goal() !== chosen) {
        drawHead();
        draw();
        go(goal()); // no other step was selected meanwhile
        shown = chosen;
      }
    }
    drawHead();
    draw();
    go(chosen === shown ? goal() : chosen);
  };
  // Loaded once the page is usable: the rest of a long story, the limits, and how close each rule was.
  read().then(again, (error) => tell(error.message, "bad"));

  const refresh = soon(async () => {
    try {
      if (steps.length >= AT_A_TIME) {
        const { session, total } = await get(where, { limit: 1 });
        page = { ...page, session, total };
        return drawHead();
      }
      const last = chosen === visible.at(-1);
      page = await get(where, { limit: AT_A_TIME });
      steps = page.steps;
      drawHead();
      draw();
      go(last ? visible.at(-1) : chosen);
      await again();
    } catch (error) {
      fill(more, problem(error));
    }
  }, 800);
  return (what, data) => {
    if (what === "incident" || what === "decision") look().catch(() => {});
    if (what === "missed" || data.session_id === id || data.scope_id === id || (data.sessions ?? []).includes(id)) refresh();
  };
}

const isTrip = (step) => step.topic === "interventions" && Boolean(step.record?.detector || step.record?.level === "KILL");
