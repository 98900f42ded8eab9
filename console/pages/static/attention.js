// Counts of pending approvals and problems, on every page: in the tab's title and as notifications.
import { get } from "./api.js";
import { draw } from "./banner.js";
import { notifyOf } from "./notify.js";
import { ms } from "./say.js";

const EVERY_MS = 3000;
const HIDDEN_EVERY_MS = 15000; // for the title of a tab in the background
const COUNT_EVERY = 5; // checks: the stream's changes are counted at once, but requests also expire without one
const STREAM_AWAY_MS = 10000;
const ANSWER_WITHIN_MS = 10000;

let name = document.title;
let waiting = 0;
let problems = [];

// The title of a page: its subjects, the most specific first.
export function titled(...parts) {
  name = [...parts, "haltline"].join(" \u00b7 ");
  showTitle();
}

function showTitle() {
  const number = waiting + problems.length;
  document.title = `${problems.length ? "(!) " : ""}${number ? `(${number}) ` : ""}${name}`;
}

function showWaiting(number) {
  waiting = number;
  const place = document.getElementById("waiting");
  place.textContent = number;
  place.title = `${number} wait for an answer`;
  place.hidden = number === 0;
  showTitle();
}

// Checks until the page is left. `count` checks the approvals at once; `stream` takes whether the stream is connected.
export function attend() {
  let seen_ms = Date.now();
  let streamAway_ms = null;
  let reported = [];
  let timer = null;
  let looks = 0;
  const here = (isAnswered) => {
    if (!isAnswered) return [{ part: "page", urgency: "critical", since: seen_ms, title: "This page is not up to date", what: "The console does not answer. What is shown may be old; what you do here is not done.", partitions: [], steps: [{ text: "See whether the console runs and can be reached. This page goes on by itself when it answers.", command: "" }] }];
    if (streamAway_ms !== null && Date.now() - streamAway_ms >= STREAM_AWAY_MS) return [{ part: "stream", urgency: "warning", since: streamAway_ms, title: "This page is not live", what: "The stream of events does not open, so changes are shown only when the page is loaded again.", partitions: [], steps: [{ text: "A proxy before the console must not buffer /api/v1/events.", command: "" }] }];
    return [];
  };
  const look = async () => {
    clearTimeout(timer);
    let isAnswered = true;
    try {
      const protection = await get("/api/v1/protection", {}, { within_ms: ANSWER_WITHIN_MS });
      reported = protection.problems.map((one) => ({ ...one, since: ms(one.since) }));
      seen_ms = Date.now();
      if (looks++ % COUNT_EVERY === 0 || document.hidden) await count().catch(() => {});
    } catch (error) {
      isAnswered = error.status > 0 && error.status < 500;
    }
    const own = here(isAnswered);
    problems = isAnswered ? [...own, ...reported] : own; // earlier problems may be over by now
    draw(document.getElementById("problems"), problems);
    showTitle();
    notifyOf(problems);
    timer = setTimeout(look, document.hidden ? HIDDEN_EVERY_MS : EVERY_MS);
  };
  const count = async () => showWaiting((await get("/api/v1/fleet", {}, { within_ms: ANSWER_WITHIN_MS })).waiting);
  document.addEventListener("visibilitychange", look);
  look();
  return { count, stream: (isOn) => (streamAway_ms = isOn ? null : (streamAway_ms ?? Date.now())) };
}
