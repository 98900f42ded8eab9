"""Causes of rules, for people: rules that detect the same problem in different ways share one. Pure."""

from collections.abc import Collection, Mapping
from typing import Final

NO_PROGRESS: Final = frozenset(
    {
        "agreement", "cycle", "environment_gone", "error_repetition", "exploration_wandering", "fruitless_search",
        "fruitless_waits", "invented_data", "monologue", "polling", "repetition", "stagnation",
    }
)  # fmt: skip
"""Rules that detect a session without progress."""
_RULES: Final[Mapping[str, Collection[str]]] = {
    "no_progress": NO_PROGRESS,
    "destruction": ("destructive_repeat", "destructive_volume", "severe_destruction"),
    "spending": ("budget", "spend_velocity"),
}
_CAUSES: Final = {rule: cause for cause, rules in _RULES.items() for rule in rules}


def cause_of_rule(rule: str) -> str:
    """Return the cause that a rule's decisions count under: by default the rule's own id."""
    return _CAUSES.get(rule, rule)
