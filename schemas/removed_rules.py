"""Rules of earlier releases that are gone. Policies may name them still, without effect; so may the audit's records."""

from collections.abc import Iterable, Mapping
from typing import Final

REMOVED: Final[Mapping[str, str]] = {
    "context_thrash": "budgets and stagnation see such sessions",
    "retry_storm": "error_repetition and stagnation see such sessions",
    "verify_mismatch": "destructive_repeat and error_repetition see such sessions",
}
"""By name: which rules are there instead."""


def gone(place: str, rules: Iterable[str]) -> list[str]:
    """A line for each rule that is gone; `place` is where the policy has these rules."""
    return [f"{place}.{name}: the rule is gone and has no effect: {REMOVED[name]}" for name in rules if name in REMOVED]
