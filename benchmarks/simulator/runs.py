"""Runs the history of a seed, of its kind.

The product polls less often than in production, because each poll costs steps. Nothing is redacted either: redaction
depends on the single record only.
"""

from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.simulator.history import History
from benchmarks.simulator.outcome import Outcome
from benchmarks.simulator.plan import Step
from benchmarks.simulator.upgrade import Upgrade, is_upgrade
from haltline.console.read_model import feeder
from haltline.streams.audit import sink
from haltline.streams.runtime import confirmed_producer, source_reader, worker_process, zombie_guard

_PACES: Final = (
    (source_reader, "_LOOK_EVERY_S", 0.8),
    (worker_process, "_HOUSEKEEPING_EVERY_S", 0.4),
    (zombie_guard, "_BEAT_EVERY_S", 0.5),
    (confirmed_producer, "_POLL_EVERY_S", 0.02),
    (sink, "_STOP_SEEN_WITHIN_S", 0.8),
    (feeder, "_WAIT_S", 0.8),
    (feeder, "_ALONG_S", 1.0),
    (feeder, "Redaction", lambda _: None),
)
_TRIES: Final = 12
"""The maximum number of runs spent on shortening the plan of a failed history."""


def run(seed: int, plan: Sequence[Step] | None = None, *, tell: Callable[[str], object] | None = None) -> Outcome:
    """Run one history, under its own plan or the given one."""
    slow_down()
    kind = Upgrade if is_upgrade(seed) else History
    return kind(seed, plan, tell=tell).run()


def slow_down() -> None:
    """Set the intervals of this process. Raises AttributeError when the product no longer has one."""
    for module, name, instead in _PACES:
        getattr(module, name)
        setattr(module, name, instead)


def shorten(outcome: Outcome, run: Callable[[int, Sequence[Step]], Outcome] = run) -> Outcome:
    """Shorten the plan of a failed history by leaving out one step at a time; return the shortest outcome found."""
    at = tries = 0
    while at < len(outcome.plan) and tries < _TRIES:
        tries += 1
        shorter = run(outcome.seed, [*outcome.plan[:at], *outcome.plan[at + 1 :]])
        if shorter.ok:
            at += 1
        else:
            outcome, at = shorter, 0
    return outcome
