// What happens, as it happens. A page that nobody sees listens to nothing: browsers allow few connections to one host.
const NAMES = ["decision", "detection", "incident", "control", "feedback", "command", "policy", "dead_letter", "activity", "missed"];

// `state` takes whether the stream is open.
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
      // What happened between a page's first questions and this moment was sent to nobody.
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
  // A network that was away does not end every stream, but what was asked meanwhile had no answer.
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

// Calls `act` soon after it was asked for, once however often it was, and not again before it has ended.
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

// Of several questions under way only the answer to the last one is shown.
export function latest() {
  let last = 0;
  return () => {
    const mine = (last += 1);
    return () => mine === last;
  };
}
