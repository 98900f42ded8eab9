"""What a rule is about, for people: rules that see one trouble from several sides have one cause. Pure."""

from collections.abc import Collection, Mapping
from typing import Final

NO_PROGRESS: Final = frozenset(
    {
        "agreement",
        "cycle",
        "environment_gone",
        "error_repetition",
        "exploration_wandering",
        "fruitless_search",
        "fruitless_waits",
        "invented_data",
        "monologue",
        "polling",
        "repetition",
        "stagnation",
    }
)
"""Rules that look for a session that does not get on."""
_RULES: Final[Mapping[str, Collection[str]]] = {
    "no_progress": NO_PROGRESS,
    "destruction": ("destructive_repeat", "destructive_volume", "severe_destruction"),
    "spending": ("budget", "spend_velocity"),
}
_CAUSES: Final = {rule: cause for cause, rules in _RULES.items() for rule in rules}


def cause_of_rule(rule: str) -> str:
    """The cause that a rule's decisions are counted under: its own id, where it shares none."""
    return _CAUSES.get(rule, rule)
