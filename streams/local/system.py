"""The processor's processes on one machine: for `haltline up`, the demo and tests."""

import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Final

from haltline.schemas import expressions as re
from haltline.streams.local.embedded_broker import FETCH_WAIT_MS
from haltline.streams.local.subprocesses import Child, Children

READY_WITHIN_S: Final = 90.0
"""Some seconds are usual: Faust loads, and a new group waits 3 s for more members."""

_MODULE = "haltline.cli"
_SERVES = re.compile(r"serves .{0,200} on port (\d+)")
_ANSWER_WITHIN_S = 2.0


def start_worker(children: Children, bootstrap: str, *options: str, embedded: bool, name: str = "worker") -> Child:
    """Starts a worker that serves its health on a port of its own choice, unless the options name one."""
    wait = ["--fetch-wait-ms", str(FETCH_WAIT_MS)] if embedded else []
    port = [] if "--metrics-port" in options else ["--metrics-port", "0"]
    arguments = ["worker", "--bootstrap", bootstrap, *wait, *port, *options]
    return children.start_module(name, _MODULE, arguments)


def start_audit(children: Children, bootstrap: str, options: Sequence[str]) -> Child:
    """Starts the audit sink."""
    return children.start_module("audit", _MODULE, ["audit", "--bootstrap", bootstrap, *options])


def health_url(worker: Child) -> str | None:
    """Where a worker serves its health; None before it has started to."""
    found = _SERVES.search(worker.log_file.read_text(encoding="utf-8", errors="replace"))
    return f"http://127.0.0.1:{found[1]}" if found else None


def is_ready(worker: Child) -> bool:
    """Whether a worker has its partitions and their state."""
    url = health_url(worker)
    if url is None:
        return False
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=_ANSWER_WITHIN_S):
            return True
    except OSError:  # not listening any more, or 503: not ready
        return False


def wait_until_ready(children: Children, worker: Child) -> str:
    """Waits until a worker is ready; returns where it serves its health.

    Raises:
        TimedOut: it was not in time.
        ChildDied: it, or another process, has ended.

    """
    children.wait_until(lambda: is_ready(worker), "the worker to be ready", within_s=READY_WITHIN_S)
    return health_url(worker) or ""
