import { answer, because } from "../acts.js";
import { get, may, post } from "../api.js";
import { call, isCut, listed } from "../call.js";
import { ask, badge, choose, empty, facts, field, fill, h, link, mono, panel, path, problem, table, tell, why } from "../dom.js";
import { failure } from "../failure.js";
import { key } from "../keys.js";
import { latest, soon } from "../live.js";
import { folded } from "../phone.js";
import { ago, count, moment, ms, plural, prose, span } from "../say.js";

export const title = "Approvals";

const OPEN = ["pending", "info_requested"];
const STATES = [["open", "waiting"], ["approved", "approved"], ["used", "approved and used"], ["rejected", "rejected"], ["expired", "expired"], ["cancelled", "withdrawn"]];
const WORDS = { approve: ["Approve", "approved"], reject: ["Reject", "rejected"], ask: ["Ask", "asked"] };
const WHOLE = "the whole session"; // the action of a held session's request
const isHold = (of) => of.action_name === WHOLE;
const yes = (of) => (isHold(of) ? "Release" : "Approve");
const no = (of) => (isHold(of) ? "Kill" : "Reject"); // of a held session, a rejection is a kill

export async function show(main, [wanted], query) {
  let shown = query.get("state") ?? "open";
  let found = [];
  const chosen = new Set();
  const none = h("div");
  const failed = h("div");
  const absent = h("div"); // stays while the list is reloaded
  const cut = h("div");
  const bar = h("div", { class: "row" });
  const acting = may("act");
  const reason = because();
  const agent = h("input", { type: "search", value: query.get("agent_id") ?? "", size: "18", onchange: () => refresh() });
  const priority = choose([["", "any"], ...["critical", "high", "medium", "low"].map((one) => [one, one])], query.get("priority") ?? "", { onchange: () => refresh() });
  const state = choose(STATES, shown, {
    onchange: () => {
      shown = state.value;
      chosen.clear();
      refresh();
    },
  });
  const all = h("input", {
    type: "checkbox",
    "aria-label": "Choose all",
    onchange: () => {
      chosen.clear();
      if (all.checked) for (const of of found) chosen.add(of.id);
      draw();
    },
  });
  const tick = (of) =>
    h("input", {
      type: "checkbox",
      checked: chosen.has(of.id),
      "aria-label": `Choose ${of.action_name} of ${of.session_id}`,
      onchange: (event) => {
        if (event.target.checked) chosen.add(of.id);
        else chosen.delete(of.id);
        draw();
      },
    });
  const opened = new Set();
  const whole = (of) => h("details", { open: opened.has(of.id), ontoggle: (event) => (event.target.open ? opened.add(of.id) : opened.delete(of.id)) }, h("summary", {}, "Arguments in full"), listed(of.arguments));
  const list = table(
    [
      ...(acting ? [{ head: all, cell: ({ of }) => isOpen(of) && tick(of) }] : []),
      { head: "Priority", class: "tight", cell: ({ of }) => badge(of.priority) },
      { head: "Time left", class: "tight", cell: ({ of }) => (isOpen(of) ? countdown(of) : badge(of.status)) },
      { head: "Call", class: "wide", cell: ({ of }) => [call(of.action_name, of.arguments), of.targets.length > 0 && h("div", { class: "dim" }, "on ", mono(of.targets.join(", "))), h("div", {}, prose(of.reason)), of.question && h("div", { class: "dim" }, `Asked: ${of.question}${of.answer ? ` Answer: ${of.answer}` : ""}`), isCut(of.arguments) && whole(of)] },
      { head: "Session", class: "id", cell: ({ of }) => [link(path("sessions", of.session_id), mono(of.session_id)), h("div", { class: "dim" }, of.agent_id)] },
      { head: "Requested", cell: ({ of }) => votes(of) },
      ...(acting ? [{ head: "", class: "tight", cell: ({ of }) => isOpen(of) && h("span", { class: "row" }, h("button", { type: "button", class: "primary", onclick: () => once("approve", of) }, yes(of)), h("button", { type: "button", onclick: () => once("reject", of) }, no(of)), !isHold(of) && h("button", { type: "button", class: "quiet", onclick: () => act("ask", [of]) }, "Ask")) }] : []),
    ],
    { caption: "Approval requests: held sessions, then the most urgent", onopen: ({ of }) => open(of) },
  );
  fill(
    main,
    h("div", { class: "head" }, h("h1", {}, "Approvals"), h("span", { class: "dim" }, "A call that waits is refused when nobody answers in time.")),
    absent,
    failed,
    panel(null, folded(h("div", { class: "row low" }, field("State", state), field("Priority", priority), field("Agent", agent))), bar),
    panel(null, none, list, cut),
  );

  const draw = () => {
    const waiting = found.filter((of) => chosen.has(of.id));
    for (const id of [...chosen]) if (!waiting.some((of) => of.id === id)) chosen.delete(id);
    all.checked = found.length > 0 && waiting.length === found.length;
    all.indeterminate = waiting.length > 0 && waiting.length < found.length;
    all.hidden = shown !== "open";
    list.hidden = !found.length;
    fill(none, !found.length && (shown === "open" ? empty("No requests are waiting.", "Calls that need an operator's approval appear here, the most urgent first.") : empty("No requests match.")));
    list.update(found.map((of) => ({ key: of.id, of, class: chosen.has(of.id) ? "chosen" : undefined })));
    fill(
      bar,
      acting &&
        shown === "open" &&
        found.length > 0 && [
          h("span", { class: "dim" }, "Why"),
          reason,
          h("span", { class: "dim", id: "chosen" }, `${count(waiting.length)} of ${count(found.length)} selected`),
          h("button", { type: "button", class: "primary", disabled: !waiting.length, onclick: () => act("approve", waiting) }, "Approve selected"),
          h("button", { type: "button", disabled: !waiting.length, onclick: () => act("reject", waiting) }, "Reject selected"),
        ],
    );
  };
  const turn = latest();
  const refresh = async () => {
    const isLast = turn();
    const asked = { priority: priority.value, agent_id: agent.value.trim(), limit: 200 };
    try {
      const filter = shown === "open" ? { open_only: true } : { status: shown };
      const reply = await get("/api/v1/approvals", { ...asked, ...filter });
      if (!isLast()) return;
      found = reply.approvals;
      fill(cut, reply.total > found.length && h("p", { class: "hint" }, `The ${count(found.length)} most urgent of ${count(reply.total)}.`));
      fill(failed);
      draw();
    } catch (error) {
      fill(failed, problem(error, refresh));
    }
  };
  const once = (word, of) => answer(of.id, word, reason.value, `${isHold(of) ? `Session ${of.session_id}` : of.action_name}: ${isHold(of) ? (word === "approve" ? "released" : "killed") : WORDS[word][1]}.`, refresh);
  const act = async (word, requests) => {
    let [title, done] = WORDS[word];
    if (requests.every(isHold)) [title, done] = word === "approve" ? ["Release", "released"] : ["Kill", "killed"];
    const critical = requests.filter((of) => of.quorum > 1).length;
    const reply = await ask({
      title: requests.length === 1 ? `${title} ${isHold(requests[0]) ? requests[0].session_id : requests[0].action_name}` : `${title} ${plural(requests.length, "request")}`,
      text: [
        h("ul", { class: "evidence" }, requests.slice(0, 12).map((of) => h("li", {}, call(of.action_name, of.arguments), h("span", { class: "dim" }, ` of ${of.session_id}`)))),
        requests.length > 12 && h("p", { class: "dim" }, `and ${count(requests.length - 12)} more`),
        word === "approve" && critical > 0 && h("p", { class: "notice" }, `${plural(critical, "request needs", "requests need")} two operators: you are one of them.`),
      ],
      action: title,
      danger: word === "reject",
      fields: [why(word === "ask" ? "The question to the model. Kept in the audit with your name." : undefined)],
    });
    if (!reply) return;
    try {
      const answer = await post("/api/v1/approvals/batch", { ids: requests.map((of) => of.id), word, reason: reply.reason });
      const refused = Object.values(answer.refused);
      const parts = [
        answer.answered.length > 0 && `${plural(answer.answered.length, "request")} ${done}`,
        answer.late.length > 0 && `${plural(answer.late.length, "answer")} sent; no worker has processed it yet`,
        refused.length > 0 && `${plural(refused.length, "request")} not answered: ${refused[0]}`,
      ].filter(Boolean);
      tell(`${parts.join("; ")}.`, refused.length ? "bad" : "");
      for (const id of answer.answered) chosen.delete(id);
    } catch (error) {
      tell(error.message, "bad");
    }
    await refresh();
  };
  const open = (of) => {
    const close = (then) => () => {
      dialog.close();
      then?.();
    };
    const dialog = h(
      "dialog",
      { class: "wide", "aria-label": of.action_name, onclose: () => dialog.remove() },
      h(
        "div",
        { class: "stack" },
        h("div", { class: "row" }, h("h2", {}, mono(of.action_name)), badge(of.priority), badge(of.status)),
        facts([
          ["Targets", of.targets.length ? mono(of.targets.join(", ")) : null],
          ["Why", prose(of.reason)],
          ["Session", link(path("sessions", of.session_id), mono(of.session_id))],
          ["Agent", of.agent_id],
          ["Incident", of.incident_id && link(path("incidents", of.incident_id), mono(of.incident_id.slice(0, 8)))],
          ["Since", moment(of.created_at)],
          ["Expires", moment(of.expires_at)],
          ["Requested", plural(of.asked, "time")],
          ["Needs", plural(of.quorum, "operator")],
          ["Approved by", of.approved_by.join(", ")],
          ["Rejected by", of.rejected_by.join(", ")],
          ["Question", of.question],
        ]),
        h("h3", {}, "Arguments"),
        listed(of.arguments),
        h(
          "div",
          { class: "row end" },
          acting && isOpen(of) && [
            h("button", { type: "button", class: "primary", onclick: close(() => act("approve", [of])) }, yes(of)),
            h("button", { type: "button", onclick: close(() => act("reject", [of])) }, no(of)),
            !isHold(of) && h("button", { type: "button", onclick: close(() => act("ask", [of])) }, "Ask first"),
          ],
          h("button", { type: "button", onclick: close() }, "Close"),
        ),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
  };
  const current = () => found.find((of) => of.id === document.activeElement?.closest("tr[data-key]")?.dataset.key);
  const those = () => (chosen.size ? found.filter((of) => chosen.has(of.id)) : [current()].filter(Boolean));
  if (acting) {
    key("x", "choose the row", () => {
      const of = current();
      if (!of || !isOpen(of)) return;
      if (chosen.has(of.id)) chosen.delete(of.id);
      else chosen.add(of.id);
      draw();
    });
    key("a", "approve the selected ones, or the row", () => those().length && act("approve", those()));
    key("r", "reject the selected ones, or the row", () => those().length && act("reject", those()));
  }
  await refresh();
  // A link, for example in a notification, opens the request; answering it takes a click here.
  if (wanted) await get(`/api/v1/approvals/${encodeURIComponent(wanted)}`).then(open, (error) => fill(absent, failure(error, "approvals", wanted, () => location.reload())));
  setInterval(() => {
    for (const place of main.querySelectorAll("[data-expires]")) {
      const left = Number(place.dataset.expires) - Date.now();
      place.textContent = left > 0 ? clock(left) : "expired";
      place.className = left < 60000 ? "badge bad" : left < 300000 ? "badge warn" : "";
    }
  }, 1000);
  const again = soon(refresh);
  return (what) => {
    if (what !== "activity" && what !== "detection") again();
  };
}

const isOpen = (of) => OPEN.includes(of.status);

function countdown(of) {
  const left = ms(of.expires_at) - Date.now();
  const kind = left < 60000 ? "badge bad" : left < 300000 ? "badge warn" : "";
  return h("span", { class: kind, title: of.expires_at, data: { expires: ms(of.expires_at) } }, clock(left));
}

function clock(left) {
  if (left > 5400000) return span(left);
  const s = Math.max(0, Math.floor(left / 1000));
  return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")}`;
}

function votes(of) {
  const reply = [...of.approved_by.map((name) => `+ ${name}`), ...of.rejected_by.map((name) => `- ${name}`)];
  return [of.quorum > 1 && h("span", { class: "dim" }, `needs ${of.quorum} `), reply.join(", "), of.status === "info_requested" && [" ", badge("asked", "mild")], !reply.length && of.quorum <= 1 && h("span", { class: "dim" }, ago(of.created_at))];
}
