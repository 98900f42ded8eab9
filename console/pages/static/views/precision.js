import { get, may, post } from "../api.js";
import { ask, badge, empty, fill, h, link, mono, panel, path, problem, table, tell, why } from "../dom.js";
import { soon } from "../live.js";
import { ago, count, plural } from "../say.js";

export const title = "Precision";

const percent = (share) => (share === null ? h("span", { class: "dim" }, "not known") : `${Math.round(share * 100)} %`);

export async function show(main) {
  const none = h("div");
  const failed = h("div");
  const latest = h("div");
  const unheard = h("div");
  const summary = h("span", { class: "dim" });
  const list = table(
    [
      { head: "Rule", class: "id", cell: ({ of }) => link(`/policies?rule=${encodeURIComponent(of.rule)}`, mono(of.rule)) },
      { head: "Right", class: "num", cell: ({ of }) => count(of.confirmed) },
      { head: "False alarms", class: "num", cell: ({ of }) => count(of.false_alarm) },
      { head: "Missed", class: "num", cell: ({ of }) => count(of.missed) },
      { head: "Precision", class: "num", cell: ({ of }) => percent(of.precision) },
      { head: "", cell: ({ of }) => of.precision !== null && bar(of.precision) },
      { head: "Recall", class: "num", cell: ({ of }) => percent(of.recall) },
    ],
    { caption: "How often each rule was right" },
  );
  const advice = table(
    [
      { head: "Rule", class: "id", cell: ({ of }) => mono(of.rule) },
      { head: "Hints", class: "num", cell: ({ of }) => count(of.hints) },
      { head: "Helped", class: "num", cell: ({ of }) => count(of.helped) },
      { head: "Continued", class: "num", cell: ({ of }) => count(of.went_on) },
      { head: "Stopped", class: "num", cell: ({ of }) => count(of.stopped) },
      { head: "Not known yet", class: "num", cell: ({ of }) => count(of.unknown) },
      { head: "Share", class: "num", cell: ({ of }) => percent(of.share_helped) },
    ],
    { caption: "Whether hints helped, by rule" },
  );
  const number = (value) => (value === null ? "-" : value.toFixed(2));
  const tried = table(
    [
      { head: "Rule", class: "id", cell: ({ rule }) => mono(rule) },
      { head: "Measure", cell: ({ of }) => of.what },
      { head: "Told", class: "num", cell: ({ of }) => `${number(of.told)} of ${count(of.told_of)}` },
      { head: "Silent", class: "num", cell: ({ of }) => `${number(of.silent)} of ${count(of.silent_of)}` },
      { head: "Difference", class: "num", cell: ({ of }) => number(of.difference) },
      { head: "95 % interval", class: "num", cell: ({ of }) => (of.low === null ? "-" : `${number(of.low)} to ${number(of.high)}`) },
    ],
    { caption: "What hints changed, by experiment" },
  );
  const experiment = panel("What hints changed", tried, h("p", { class: "hint" }, "Sessions that got the hints of the policy's experiment, and those from which they were held back. For the last 1,000 decisions."));
  fill(
    main,
    h("div", { class: "head" }, h("h1", {}, "Precision"), summary, may("act") && h("span", { class: "push" }, h("button", { type: "button", onclick: () => missed(refresh) }, "Report a missed runaway"))),
    failed,
    panel("By rule", none, list, h("p", { class: "hint" }, "Precision: the share of its labelled decisions that were right. Recall: the share of the known runaways that it found. Below 70 %, consider another threshold: try it in the policy editor.")),
    panel("Whether hints helped", unheard, advice, h("p", { class: "hint" }, "What each session did in its next ten actions: the rule found nothing more (helped), found it again (continued), or stopped the session. For the last 1,000 decisions.")),
    experiment,
    panel("Latest labels", latest),
  );
  const refresh = async () => {
    try {
      const reply = await get("/api/v1/precision");
      fill(failed);
      summary.textContent = plural(reply.labels, "label");
      list.hidden = !reply.rules.length;
      fill(none, !reply.rules.length && empty("No decisions are labelled yet.", "Open an intervention and label it right or a false alarm: precision is computed from these labels."));
      list.update(reply.rules.map((of) => ({ key: of.rule, of, class: of.precision !== null && of.precision < 0.7 ? "low" : undefined })));
      advice.hidden = !reply.advice.length;
      fill(unheard, !reply.advice.length && empty("No hints were given yet."));
      advice.update(reply.advice.map((of) => ({ key: of.rule, of })));
      experiment.hidden = !reply.experiments.length;
      tried.update(reply.experiments.flatMap(({ rule, measures }) => measures.map((of) => ({ key: `${rule} ${of.what}`, rule, of }))));
      fill(latest, reply.latest.length ? labels(reply.latest) : empty("None yet."));
    } catch (error) {
      fill(failed, problem(error, refresh));
    }
  };
  await refresh();
  const again = soon(refresh);
  return (what) => {
    if (what === "command" || what === "missed") again();
  };
}

function bar(share) {
  const inside = h("i");
  inside.style.width = `${share * 100}%`;
  return h("span", { class: `meter one ${share < 0.7 ? "over" : ""}`, "aria-hidden": "true" }, h("span", { class: "track" }, inside));
}

function labels(found) {
  const list = table(
    [
      { head: "When", class: "tight", cell: ({ of }) => ago(of.time) },
      { head: "Label", class: "tight", cell: ({ of }) => badge(of.label) },
      { head: "Rule", class: "id", cell: ({ of }) => mono(of.rule || "(none)") },
      { head: "Session", class: "id", cell: ({ of }) => link(path("sessions", of.session_id) + (of.decision_id ? `?decision=${encodeURIComponent(of.decision_id)}` : ""), mono(of.session_id)) },
      { head: "By", cell: ({ of }) => of.by },
      { head: "Why", class: "wide", cell: ({ of }) => of.reason },
    ],
    { caption: "Latest labels" },
  );
  list.update(found.map((of, at) => ({ key: `${at}`, of })));
  return list;
}

async function missed(refresh) {
  const input = (more) => () => h("input", { type: "text", autocomplete: "off", spellcheck: "false", maxlength: "256", ...more });
  const reply = await ask({
    title: "Report a missed runaway",
    text: h("p", {}, "A session that was a runaway, and a rule that should have found it."),
    action: "Save label",
    fields: [{ name: "session", label: "Session", make: input() }, { name: "rule", label: "Rule", make: input({ placeholder: "error_repetition" }) }, why()],
  });
  if (!reply) return;
  try {
    await post(`/api/v1/sessions/${encodeURIComponent(reply.session)}/missed`, { rule: reply.rule, reason: reply.reason });
    tell("Label saved.");
    await refresh();
  } catch (error) {
    tell(error.message, "bad");
  }
}
