"""`haltline audit verify --every`: periodic verification of the audit's chains, with the result on /metrics."""

import sys
import time
from collections.abc import Callable
from datetime import timedelta

from haltline.cli.common import say_error
from haltline.streams.audit.verify import Verification
from haltline.streams.runtime.health import HealthServer
from haltline.streams.runtime.metrics import Metrics


def verify_again(every: timedelta, host: str, port: int, once: Callable[[], Verification]) -> None:
    """Verify until interrupted. `once` verifies, and raises OSError if there is nothing to verify.

    A missing table is reported. The time of the last verification then stays the same, which triggers an alert.
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
    """Record the result of one verification; `now_s` is its end, epoch seconds."""
    metrics.gauge("audit_chain_intact").set(1 if found.ok else 0)
    metrics.gauge("audit_verified_rows").set(found.rows)
    metrics.gauge("audit_unsigned_rows").set(found.unsigned)
    metrics.gauge("audit_last_verification_timestamp_seconds").set(now_s)
