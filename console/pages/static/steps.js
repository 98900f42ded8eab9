// The description of a step of a session's story, for all pages.
const OF_TOPIC = { detections: "findings", interventions: "decisions", commands: "operators" };

// Rules whose PAUSE requests an approval of an act: it is shown as an ask, not as a stop (`default_levels.ASKS`).
const ASKS = ["ask_first", "destructive_volume", "opaque_execution", "secret_sent"];
export const levelShown = (record) => (record?.level === "PAUSE" && ASKS.includes(record.detector) ? "ASK" : record?.level);

export const isPlumbing = (step) => !(step.topic in OF_TOPIC) && step.topic !== "actions";
export const laneOf = (step) => OF_TOPIC[step.topic] ?? (step.topic !== "actions" ? "plumbing" : step.kind.startsWith("action.") ? "tools" : "model");

// The arguments of a call in one line: `name=value, ...`.
export const argumentsOf = (step) => {
  const args = step.topic === "actions" ? step.record?.args : null;
  if (!args || typeof args !== "object") return "";
  return Object.entries(args).map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
};
