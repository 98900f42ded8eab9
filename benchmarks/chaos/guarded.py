"""An agent with a guard, in its own process, that repeats a destructive call until it is stopped.

`python -m benchmarks.chaos.guarded BOOTSTRAP PREFIX`

Its session is killed before it starts, so no call may ever be executed, whatever is restarted. It prints the reason of
refusals when it changes.
"""

import signal
import sys
import time
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from benchmarks.chaos import damage
from benchmarks.chaos.expected import Truth
from benchmarks.chaos.verify import Check, Difference
from haltline.interventions.agent import Guard, Refused
from haltline.schemas.signals import Signal
from haltline.schemas.wire import decode
from haltline.streams.replay.records import LogRecord

SESSION: Final = "guarded"
"""The id of its session and agent. It is checked separately, because it does not follow from the load."""

APART: Final = (SESSION, damage.SESSION)
"""Sessions that are checked separately."""

_KEYS: Final = {key.encode() for session in APART for key in (session, f"session:{session}")}
KILLED: Final = "refused with session_killed_by_operator"
_EXECUTED: Final = "EXECUTED"
_PAUSE_S: Final = 0.25


def main(bootstrap: str, prefix: str) -> None:
    """Run until SIGTERM, which exits with status 0."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    text = ""
    guard = Guard(
        session_id=SESSION,
        agent_id=SESSION,
        bootstrap=bootstrap,
        topic_prefix=prefix,
        mode="blocking",
        budget_s=5.0,
        start_budget_s=30.0,
    )
    with guard:
        while True:
            actual = _EXECUTED
            try:
                with guard.action("delete_asset", args={"asset_id": "ledger"}, targets=["asset_id=ledger"]):
                    pass
            except Refused as refused:
                actual = f"refused with {refused.code}"
            if actual != text:
                print(actual, flush=True)
                text = actual
            time.sleep(_PAUSE_S)


def is_refused(log_file: Path) -> bool:
    """Return whether a call of this life was refused because of the kill."""
    return KILLED in log_file.read_text().splitlines()


def check_refusals(logs: Iterable[Path]) -> Check:
    """Check that no life executed a call, and that the last was refused because of the kill."""
    lives = sorted(logs, key=lambda file: int(file.suffixes[0][1:]))
    differences = [
        Difference(file.name, "expected no call to be executed, got one") for file in lives if executed(file)
    ]
    if not is_refused(lives[-1]):
        differences.append(Difference(lives[-1].name, f"expected {KILLED!r}, got {lives[-1].read_text()!r:.200}"))
    return Check("an earlier kill is in force for a restarted agent", f"{len(lives)} lives", tuple(differences))


def executed(log_file: Path) -> bool:
    """Return whether a call was executed."""
    return _EXECUTED in log_file.read_text().splitlines()


def is_of_others(record: LogRecord, signals: Collection[str]) -> bool:
    """Return whether a record is about other sessions than those of `APART`; `signals` are the signals' topics."""
    if record.topic in signals:
        return decode(Signal, record.value).session_id not in APART
    return record.key not in _KEYS


def of_others(truth: Truth) -> Truth:
    """Return the results without those about sessions of `APART`, whose signals lead to findings."""

    def kept(records: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        return {key: record for key, record in records.items() if record["session_id"] not in APART}

    return replace(
        truth,
        decisions=kept(truth.decisions),
        detections=kept(truth.detections),
        signals=kept(truth.signals),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
