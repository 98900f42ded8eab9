"""The repetition of a command (`--every`), with its results on /metrics."""

import sys
import time
from collections.abc import Callable
from datetime import timedelta

from haltline.streams.runtime.health import HealthServer
from haltline.streams.runtime.metrics import Metrics


def repeat(what: str, every: timedelta, once: Callable[[], object], metrics: Metrics, at: tuple[str, int]) -> None:
    """Call `once` at this interval until interrupted, with /metrics at an address. `what` names the command."""
    server = HealthServer(*at, exposition=metrics.exposition)
    print(f"haltline {what}: serves /metrics on port {server.port}", file=sys.stderr, flush=True)
    try:
        while True:
            began_s = time.monotonic()
            once()
            time.sleep(max(0.0, every.total_seconds() - (time.monotonic() - began_s)))
    finally:
        server.close()
