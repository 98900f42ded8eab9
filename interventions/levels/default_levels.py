"""Default levels and modes of findings, by rule, and the causes that rules share. Pure."""

from collections.abc import Collection, Mapping
from typing import Final

from haltline.schemas.decisions import Level, Mode
from haltline.schemas.findings import Severity

LOOP_GUARD = frozenset({"destructive_repeat", "destructive_volume"})
"""The rules of the loop guard: their kills have the same code."""

_SHADOWED = frozenset({"combination", "goal_drift", "stagnation_candidate", "step_review"})
"""Rules that fire in healthy sessions as often as in others, or in too few to judge: in shadow mode by default."""

_WARNED = frozenset({"target_destruction"})
"""Rules that cannot distinguish work from a runaway in every fleet: a hint and a flag unless a policy enforces them."""

NO_STOP_BY_WARNINGS = frozenset({"polling", "stagnation"})
"""Rules whose warnings never add up to a stop: what waits is slowed down, and the same score is the same guess."""

STANDS_AGAIN: Mapping[str, Severity] = {
    "cycle": Severity.MEDIUM,
    "fruitless_search": Severity.MEDIUM,
    "fruitless_waits": Severity.MEDIUM,
    "invented_data": Severity.HIGH,
}
"""Rules that are seldom wrong twice: from this severity, a finding that stands again after its hint is a stop."""

STOPS_SESSION = frozenset({"budget", "spend_velocity"})
"""Rules whose PAUSE freezes the whole session, because every call and model turn adds to their measure."""

ASKS = frozenset({"ask_first", "destructive_volume", "opaque_execution", "secret_sent"})
"""Rules whose PAUSE asks a person about a call that may be intended. It is reported as an ask, not as a stop."""

ASK = "ASK"
"""The name of such a PAUSE where decisions are counted and displayed."""

ASKS_ONCE = frozenset({"destructive_volume"})
"""Those that ask once in a session: the answer covers their later findings."""

_BY_SEVERITY: Mapping[Severity, Level] = {
    Severity.LOW: Level.NUDGE,
    Severity.MEDIUM: Level.NUDGE,
    Severity.HIGH: Level.REINFORCE,
    Severity.CRITICAL: Level.PAUSE,
}

_BY_RULE: Mapping[str, Mapping[Severity, Level]] = {
    # Each further delete costs data: waiting does not help.
    "destructive_repeat": {**_BY_SEVERITY, Severity.HIGH: Level.PAUSE, Severity.CRITICAL: Level.KILL},
    # It may be intended: a person decides. The preset `literal` kills.
    "destructive_volume": {**_BY_SEVERITY, Severity.HIGH: Level.PAUSE},
    # One call, refused in time, has done no harm: the session may continue without it. A second one is no accident.
    "severe_destruction": {**_BY_SEVERITY, Severity.HIGH: Level.BLOCK, Severity.CRITICAL: Level.KILL},
    # A hint takes effect too late: spending continues meanwhile.
    "spend_velocity": {**_BY_SEVERITY, Severity.HIGH: Level.PAUSE, Severity.CRITICAL: Level.KILL},
    # Its effect is unknown: it is refused, and may be repeated in a readable form.
    "unread_execution": {**_BY_SEVERITY, Severity.HIGH: Level.BLOCK, Severity.CRITICAL: Level.BLOCK},
    # Asks before the first call, where a policy names its effects.
    "ask_first": {**_BY_SEVERITY, Severity.HIGH: Level.PAUSE},
    # A secret that was sent cannot be taken back; where its destination is doubtful, a person decides.
    "secret_sent": {**_BY_SEVERITY, Severity.HIGH: Level.PAUSE, Severity.CRITICAL: Level.KILL},
    # A note, unless a policy requires more; then a person is asked.
    "opaque_execution": {**_BY_SEVERITY, Severity.HIGH: Level.PAUSE},
    # An attempt to bypass a refusal is refused as well, and will not be the last.
    "evasion": {**_BY_SEVERITY, Severity.HIGH: Level.BLOCK, Severity.CRITICAL: Level.KILL},
    # A review is of one step: the step is refused, and the session continues without it.
    "step_review": {
        **_BY_SEVERITY,
        Severity.MEDIUM: Level.REINFORCE,
        Severity.HIGH: Level.BLOCK,
        Severity.CRITICAL: Level.BLOCK,
    },
    # Across sessions: the session that continues is killed, then its agent; shared targets are frozen.
    "agent_destruction": {**_BY_SEVERITY, Severity.HIGH: Level.KILL, Severity.CRITICAL: Level.KILL},
    "tree_destruction": {**_BY_SEVERITY, Severity.HIGH: Level.KILL, Severity.CRITICAL: Level.KILL},
    "mission_destruction": {**_BY_SEVERITY, Severity.HIGH: Level.KILL, Severity.CRITICAL: Level.KILL},
    "respawn": {**_BY_SEVERITY, Severity.CRITICAL: Level.KILL},
    # A tree of sessions: a hint, then no session of it starts another agent; above a budget it is frozen.
    "spawn_storm": {**_BY_SEVERITY, Severity.HIGH: Level.NUDGE, Severity.CRITICAL: Level.BLOCK},
    "tree_budget": {**_BY_SEVERITY, Severity.HIGH: Level.BLOCK},
    "target_destruction": {**_BY_SEVERITY, Severity.HIGH: Level.BLOCK, Severity.CRITICAL: Level.BLOCK},
    "agent_budget": {**_BY_SEVERITY, Severity.CRITICAL: Level.BLOCK},
    "mission_budget": {**_BY_SEVERITY, Severity.CRITICAL: Level.BLOCK},
    # Polls of something silent are slowed: what they wait for may still come.
    "polling": {**_BY_SEVERITY, Severity.HIGH: Level.THROTTLE},
    # Growth is slowed down before it is stopped.
    "resource_growth": {**_BY_SEVERITY, Severity.HIGH: Level.THROTTLE},
}


def default_level(detector: str, severity: Severity) -> Level:
    """Return the default level of a finding."""
    return _BY_RULE.get(detector, _BY_SEVERITY)[severity]


def default_mode(detector: str) -> Mode:
    """Return the default mode of a rule."""
    if detector in _SHADOWED:
        return Mode.SHADOW
    return Mode.WARN if detector in _WARNED else Mode.ENFORCE


def is_ask(detector: str, level: Level) -> bool:
    """Return whether a decision asks a person about a call, and stops only this call until the answer."""
    return level is Level.PAUSE and detector in ASKS


def shown_level(detector: str, level: Level) -> str:
    """Return the level for display; `ASK` for an ask."""
    return ASK if is_ask(detector, level) else level.value


def kill_code(detector: str) -> str:
    """Return the code of refusals in a session that this rule killed."""
    return "session_killed_loop_guard" if detector in LOOP_GUARD else f"session_killed_{detector}"


JUDGEMENT: Final = frozenset(
    {
        "agreement", "cycle", "duplicate_acts", "environment_gone", "error_repetition",
        "fruitless_search", "fruitless_waits", "goal_drift", "hallucination", "invented_data", "monologue", "polling",
        "repetition", "silent_shell", "stagnation",
    }
)  # fmt: skip
"""Rules that judge a session's progress: their cause is `no_progress`, and their stop holds the session."""
PLAIN: Final = frozenset({"calls_in_turn", "identical_calls"})
"""Codes of their findings that are plain equality: they hold a session at once after a hint."""
_RULES: Final[Mapping[str, Collection[str]]] = {
    "no_progress": JUDGEMENT,
    "destruction": ("destructive_repeat", "destructive_volume", "severe_destruction"),
    "spending": ("budget", "spend_velocity"),
}
_CAUSES: Final = {rule: cause for cause, rules in _RULES.items() for rule in rules}


OF_TREE: Final = frozenset({"spawn_storm", "tree_budget"})
"""Rules on a tree of sessions: their BLOCK refuses calls that start agents, and their PAUSE freezes the tree."""

FREEZE: Final = "session_frozen_"
"""Beginning of the codes of refusals in a session that a rule froze; the rule or the cause follows."""
HELD_CODE: Final = f"{FREEZE}no_progress"
"""The code of refusals in a session that is held for lack of progress."""


def freeze_code(rule: str) -> str:
    """Return the code of refusals in a session that a decision of this rule froze."""
    return HELD_CODE if rule in JUDGEMENT else f"{FREEZE}{rule}"


def cause_of_rule(rule: str) -> str:
    """Return the cause that a rule's decisions count under: by default the rule's own id."""
    return _CAUSES.get(rule, rule)
