"""Runs the history of a seed, whatever kind it is of."""

from collections.abc import Callable, Sequence

from benchmarks.simulator.history import History, Outcome
from benchmarks.simulator.pace import slow_down
from benchmarks.simulator.plan import Step
from benchmarks.simulator.upgrade import Upgrade, is_upgrade


def run(seed: int, plan: Sequence[Step] | None = None, *, tell: Callable[[str], object] | None = None) -> Outcome:
    """One history, under its own plan or another."""
    slow_down()
    kind = Upgrade if is_upgrade(seed) else History
    return kind(seed, plan, tell=tell).run()
