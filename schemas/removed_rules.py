"""Removed rules of earlier releases. Policies may still name them, without effect, and audit records too."""

from collections.abc import Iterable, Mapping
from typing import Final

REMOVED: Final[Mapping[str, str]] = {
    "after_refusal": "error_repetition counts refusals in a row, and a hold kills who goes on",
    "agent_baseline": "agent_budget and agent_destruction bound what the sessions of an agent do together",
    "behavioral_drift": "goal_drift compares with the task; spend_velocity and scope_creep see more and other work",
    "context_thrash": "budgets and stagnation see such sessions",
    "exploration_wandering": "stagnation and fruitless_search see such sessions",
    "retry_storm": "error_repetition and stagnation see such sessions",
    "verify_mismatch": "destructive_repeat and error_repetition see such sessions",
}
"""By name: the rules that replace it."""


def gone(places: Iterable[str]) -> list[str]:
    """One line for all removed rules at these places of a policy, such as `rules.NAME`; no line without any."""
    found = {place: name for place in places if (name := place.rpartition(".")[2]) in REMOVED}
    instead = "; ".join(f"{name}: {REMOVED[name]}" for name in dict.fromkeys(found.values()))
    return [f"{', '.join(found)}: gone, and without effect. Instead of {instead}"] if found else []
