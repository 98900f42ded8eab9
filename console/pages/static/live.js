// The event stream. A hidden page does not listen: browsers allow few connections to one host.
const NAMES = ["decision", "detection", "incident", "control", "feedback", "command", "policy", "dead_letter", "activity", "missed"];

// `state` takes whether the stream is connected.
export function follow(notify, state) {
  const place = document.getElementById("live");
  let source = null;
  const shown = (text, kind) => {
    place.textContent = text;
    place.className = `live ${kind}`;
  };
  const open = () => {
    source = new EventSource("/api/v1/events");
    source.addEventListener("hello", () => {
      state(true);
      // Changes between a page's first requests and this moment were not streamed.
      shown("live", "on");
      notify("missed", {});
    });
    source.onopen = () => {
      state(true);
      shown("live", "on");
    };
    source.onerror = () => {
      state(false);
      shown("disconnected", "off");
    };
    for (const name of NAMES) source.addEventListener(name, (event) => notify(name, JSON.parse(event.data)));
  };
  // A network failure does not end every stream, but requests during it have failed.
  addEventListener("online", () => notify("missed", {}));
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      source?.close();
      source = null;
      shown("paused", "off");
    } else if (source === null) open();
  });
  open();
}

// Calls `act` soon after a request for it: once for several requests, and not again before it has ended.
export function soon(act, wait = 400) {
  let timer = null;
  let running = false;
  let again = false;
  const run = async () => {
    timer = null;
    running = true;
    try {
      await act();
    } finally {
      running = false;
      if (again) {
        again = false;
        timer = setTimeout(run, wait);
      }
    }
  };
  return () => {
    if (running) again = true;
    else timer ??= setTimeout(run, wait);
  };
}

// Of several concurrent requests, only the last one's answer is shown.
export function latest() {
  let last = 0;
  return () => {
    const mine = (last += 1);
    return () => mine === last;
  };
}
