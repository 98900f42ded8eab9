// What a session's state shows: findings with measured values beside their thresholds, and irreversible acts.
import { badge, h, mono } from "./dom.js";
import { count, plural } from "./say.js";
import { levelShown } from "./steps.js";

export function levelOf(step) {
  if (step.topic === "interventions") return badge(levelShown(step.record) ?? "?");
  if (step.topic === "detections") return badge(step.record?.finding?.severity ?? "?");
  if (step.topic === "control") return badge(step.kind);
  if (step.record?.outcome && step.record.outcome !== "ok") return badge(step.record.outcome, "warn");
  return h("span");
}

export function findingOf(rule, { times, finding, mode }) {
  return h(
    "details",
    { class: "finding" },
    h("summary", {}, mono(rule), " ", badge(finding.severity), ` ${plural(times, "time")}`, mode !== "enforce" ? `, ${mode}` : "", finding.confidence < 1 ? `, confidence ${Math.round(finding.confidence * 100)} %` : "", h("p", {}, finding.reason)),
    thresholds(finding),
  );
}

// The irreversible acts of an event's frame and of those before it.
export function irreversibleActs(frames) {
  const acts = new Map();
  for (const { irreversible } of frames) {
    for (const act of irreversible) acts.set(act, (acts.get(act) ?? 0) + 1);
  }
  if (!acts.size) return null;
  return [
    h("h3", {}, "Irreversible acts so far"),
    h("p", {}, `${plural([...acts.values()].reduce((sum, times) => sum + times, 0), "act")} on what the session did not make.`),
    h("ul", { id: "irreversible" }, [...acts].slice(-8).map(([act, times]) => h("li", {}, mono(act), times > 1 ? `, ${count(times)} times` : ""))),
  ];
}

// Measured values beside the thresholds of the same name; the others are shown alone.
export function thresholds({ values = {}, thresholds: limits = {} }) {
  const names = [...new Set([...Object.keys(limits), ...Object.keys(values)])];
  if (!names.length) return null;
  const meters = [];
  const measured = [];
  const limit = [];
  for (const name of names) {
    const [value, most] = [values[name], limits[name] ?? limits[`max_${name}`] ?? limits[`min_${name}`]];
    if (typeof value === "number" && typeof most === "number" && most > 0) meters.push(meter(name, value / most, `${say(value)} / ${say(most)}`));
    else {
      if (name in values) measured.push(`${name} ${say(value)}`);
      if (name in limits && !(name.replace(/^(max|min)_/, "") in values)) limit.push(`${name} ${say(limits[name])}`);
    }
  }
  const line = (what, said) => said.length > 0 && h("p", { class: "said" }, h("span", { class: "dim" }, `${what}: `), mono(said.join(", ")));
  return h("div", { class: "values" }, meters.length > 0 && [h("h3", {}, "Value against threshold"), meters], line("Measured", measured), line("Thresholds", limit));
}

const say = (value) => (typeof value === "number" ? String(Math.round(value * 1000) / 1000) : typeof value === "string" ? value || "none" : JSON.stringify(value));

export function meter(name, share, text) {
  const bar = h("i");
  bar.style.width = `${Math.min(100, Math.max(0, share * 100))}%`;
  return h("div", { class: `meter ${share >= 1 ? "over" : share >= 0.6 ? "near" : ""}` }, mono(name), h("span", { class: "track", "aria-hidden": "true" }, bar), h("span", { class: "mono" }, text));
}

