"""Shortens the plan of a history that fails: steps are left out while it still fails."""

from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.simulator.history import Outcome
from benchmarks.simulator.plan import Step
from benchmarks.simulator.runs import run

_TRIES: Final = 30


def shorten(outcome: Outcome, run: Callable[[int, Sequence[Step]], Outcome] = run) -> Outcome:
    """The outcome with as few steps as are found, one left out at a time."""
    at = tries = 0
    while at < len(outcome.plan) and tries < _TRIES:
        tries += 1
        shorter = run(outcome.seed, [*outcome.plan[:at], *outcome.plan[at + 1 :]])
        if shorter.ok:
            at += 1
        else:
            outcome, at = shorter, 0
    return outcome
