"""`haltline audit verify --every`: the audit's chains, proved again and again, with the result on /metrics."""

import sys
import time
from collections.abc import Callable
from datetime import timedelta

from haltline.cli.common import say_error
from haltline.streams.audit.verify import Verification
from haltline.streams.runtime.health import HealthServer
from haltline.streams.runtime.metrics import Metrics


def verify_again(every: timedelta, host: str, port: int, once: Callable[[], Verification]) -> None:
    """Verifies until it is interrupted. `once` verifies, and raises OSError when there is nothing to verify.

    A table that is not there (yet, or any more) is no proof of anything: it is reported, and the time of the last
    verification stands still, which has an alert.
    """
    metrics = Metrics("verifier")
    server = HealthServer(host, port, exposition=metrics.exposition)
    print(f"haltline audit verify: serves /metrics on port {server.port}", file=sys.stderr, flush=True)
    try:
        while True:
            began_s = time.monotonic()
            try:
                record_verification(metrics, once(), time.time())
            except OSError as error:
                say_error(f"haltline: audit verify: {error}")
            time.sleep(max(0.0, every.total_seconds() - (time.monotonic() - began_s)))
    finally:
        server.close()


def record_verification(metrics: Metrics, found: Verification, now_s: float) -> None:
    """What one verification has found; `now_s` is its end, epoch seconds."""
    metrics.gauge("audit_chain_intact").set(1 if found.ok else 0)
    metrics.gauge("audit_verified_rows").set(found.rows)
    metrics.gauge("audit_unsigned_rows").set(found.unsigned)
    metrics.gauge("audit_last_verification_timestamp_seconds").set(now_s)
