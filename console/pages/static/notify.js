// Notifications of this browser, if turned on: pending approvals, kills, and problems.
// Only the tab that holds the lock notifies; notified ids are stored, so a reload repeats nothing.
import { get } from "./api.js";
import { tell } from "./dom.js";
import { ms, prose, span, words } from "./say.js";

const SWITCH = "haltline.notify";
const DONE = "haltline.notified";
const EVERY_MS = 10000;
const KEPT = 500;
const AT_ONCE = 3; // more of one kind are a single notification
const CANARY = "haltline-canary-";

let problems = [];
let stop = null;

const isOn = () => localStorage.getItem(SWITCH) === "on" && Notification.permission === "granted";
const done = () => new Set(JSON.parse(localStorage.getItem(DONE) ?? "[]"));
// The present entries, and the last of the earlier ones.
const keep = (before, all) => localStorage.setItem(DONE, JSON.stringify([...new Set([...[...before].slice(-KEPT), ...all.map((one) => one.key)])]));

export function notifyOf(now) {
  problems = now;
}

export function notifications(button) {
  if (!("Notification" in window) || !navigator.locks) return; // browsers have notifications only over TLS and on localhost
  const show = () => {
    button.setAttribute("aria-pressed", String(isOn()));
    button.title = isOn() ? "This browser notifies you of approvals, kills and problems. Click to turn it off." : "Notify me in this browser of approvals that wait, kills and problems of protection";
  };
  button.addEventListener("click", async () => {
    if (isOn()) {
      localStorage.setItem(SWITCH, "off");
      stop?.();
    } else if ((await Notification.requestPermission()) === "granted") {
      try {
        keep(done(), await found()); // no notification for existing entries
      } catch (problem) {
        tell(problem.message, "bad");
        return;
      }
      localStorage.setItem(SWITCH, "on");
      tell("This browser notifies you of approvals that wait, kills and problems of protection.");
      run();
    } else tell("The browser does not allow notifications of this site. Its settings can change that.", "bad");
    show();
  });
  show();
  button.hidden = false; // earlier, a click would be lost
  if (isOn()) run();
}

function run() {
  const ended = new Promise((resolve) => (stop = resolve));
  navigator.locks.request(SWITCH, async () => {
    let over = false;
    ended.then(() => (over = true));
    while (!over && isOn()) {
      try {
        publish(await found());
      } catch {
        publish(ofProblems()); // an unreachable console is a problem too
      }
      await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, EVERY_MS))]);
    }
  });
}

const ofProblems = () => problems.filter((of) => of.part !== "stream").map((of) => ({ kind: "problem", key: of.part === "console" ? `console@${new Date().toDateString()}` : `${of.part}@${of.since}`, tag: `haltline-${of.part}`, title: of.title, body: of.what, path: "/fleet" }));

async function found() {
  const [waiting, standing] = await Promise.all([get("/api/v1/approvals", { open_only: true, limit: 50 }), get("/api/v1/control")]);
  return [
    ...ofProblems(),
    ...waiting.approvals.map((of) => ({ kind: "approval", key: of.id, tag: `haltline-${of.id}`, title: `Approve ${of.action_name}?`, body: `${of.agent_id}${of.targets.length ? `, ${of.targets.join(", ")}` : ""}: ${prose(of.reason)}. Refused in ${span(ms(of.expires_at) - Date.now())}.`, path: `/approvals/${encodeURIComponent(of.id)}` })),
    ...standing
      .filter((of) => of.state === "killed" && !of.id.startsWith(CANARY))
      .map((of) => ({ kind: "kill", key: `kill-${of.decision_id}`, tag: `haltline-kill-${of.scope}-${of.id}`, title: `${words(of.scope)} ${of.id} was killed`, body: `By ${of.by ?? "haltline"}: ${prose(of.reason)}`, path: of.scope === "session" ? `/sessions/${encodeURIComponent(of.id)}` : "/kill" })),
  ];
}

const MANY = { approval: ["calls wait for approval", "/approvals"], kill: ["kills", "/kill"] };

function publish(all) {
  const before = done();
  const fresh = all.filter((one) => !before.has(one.key));
  for (const kind of ["problem", "approval", "kill"]) {
    const of = fresh.filter((one) => one.kind === kind);
    if (of.length > AT_ONCE && kind in MANY) send({ title: `${of.length} ${MANY[kind][0]}`, body: of.map((one) => one.title).slice(0, AT_ONCE).join(", "), tag: `haltline-${kind}s`, path: MANY[kind][1] });
    else of.forEach(send);
  }
  if (fresh.length) keep(before, all);
}

function send({ title, body, tag, path }) {
  let made;
  try {
    made = new Notification(title, { body, tag, icon: "/static/icon.svg" });
  } catch {
    localStorage.setItem(SWITCH, "off"); // Chrome on Android supports notifications in service workers only
    document.getElementById("notify").hidden = true;
    return;
  }
  made.onclick = () => {
    window.focus();
    location.assign(path);
  };
}
