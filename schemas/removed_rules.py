"""Removed rules of earlier releases. Policies may still name them, without effect, and audit records too."""

from collections.abc import Iterable, Mapping
from typing import Final

REMOVED: Final[Mapping[str, str]] = {
    "after_refusal": "error_repetition counts refusals in a row, and a hold kills who goes on",
    "context_thrash": "budgets and stagnation see such sessions",
    "retry_storm": "error_repetition and stagnation see such sessions",
    "verify_mismatch": "destructive_repeat and error_repetition see such sessions",
}
"""By name: the rules that replace it."""


def gone(place: str, rules: Iterable[str]) -> list[str]:
    """A line for each removed rule; `place` is the rules' place in the policy."""
    return [f"{place}.{name}: the rule is gone and has no effect: {REMOVED[name]}" for name in rules if name in REMOVED]
