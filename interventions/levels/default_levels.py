"""Default levels and modes of findings, and the messages to the model."""

from collections.abc import Mapping

from haltline.schemas.decisions import Level, Mode
from haltline.schemas.findings import Severity

LOOP_GUARD = frozenset({"destructive_repeat", "destructive_volume"})
"""The rules that make up the loop guard: their kill is answered with one code."""

_SHADOWED = frozenset(
    {"agent_baseline", "behavioral_drift", "combination", "goal_drift", "stagnation_candidate", "step_review"}
)
"""Rules that fire in sound sessions as often as in others, or in too few to judge: in shadow by default."""

_WARNED = frozenset({"target_destruction"})
"""Rules that cannot distinguish work from a runaway in every fleet: a hint and a flag until a policy enforces them."""

ASKS_NOBODY = frozenset({"after_refusal"})
"""Rules whose warnings never become a stop: the calls they find were refused already."""

STOPS_SESSION = frozenset({"budget", "spend_velocity"})
"""Rules whose PAUSE freezes the whole session, because every call and model turn adds to what they measure."""

ASKS = frozenset({"ask_first", "destructive_volume", "opaque_execution", "secret_sent"})
"""Rules whose PAUSE asks a person about an act that may well be meant so. It is reported as an ask, not as a stop."""

ASK = "ASK"
"""The name of such a PAUSE where decisions are counted and shown."""

ASKS_ONCE = frozenset({"destructive_volume"})
"""Those of them that ask once in a session: the answer holds for what they find later in it too."""

_BY_SEVERITY: Mapping[Severity, Level] = {
    Severity.LOW: Level.NUDGE,
    Severity.MEDIUM: Level.NUDGE,
    Severity.HIGH: Level.REINFORCE,
    Severity.CRITICAL: Level.PAUSE,
}

_BY_RULE: Mapping[str, Mapping[Severity, Level]] = {
    # Each further delete costs data: there is nothing to wait for.
    "destructive_repeat": {**_BY_SEVERITY, Severity.HIGH: Level.PAUSE, Severity.CRITICAL: Level.KILL},
    # May be what was asked for: a person knows. The preset `literal` kills.
    "destructive_volume": {**_BY_SEVERITY, Severity.HIGH: Level.PAUSE},
    # One act, refused in time, has done no harm: the session may go on without it. The second is no accident.
    "severe_destruction": {**_BY_SEVERITY, Severity.HIGH: Level.BLOCK, Severity.CRITICAL: Level.KILL},
    # Money is still being spent while a hint is read.
    "spend_velocity": {**_BY_SEVERITY, Severity.HIGH: Level.PAUSE, Severity.CRITICAL: Level.KILL},
    # Nobody knows what it does: it is refused, and may be said again in a form that can be read.
    "unread_execution": {**_BY_SEVERITY, Severity.HIGH: Level.BLOCK, Severity.CRITICAL: Level.BLOCK},
    # Asks before the first act, where a policy names its effects.
    "ask_first": {**_BY_SEVERITY, Severity.HIGH: Level.PAUSE},
    # A secret that has left cannot be taken back; where nobody knows whether it belongs there, a person does.
    "secret_sent": {**_BY_SEVERITY, Severity.HIGH: Level.PAUSE, Severity.CRITICAL: Level.KILL},
    # A note where a policy does not ask for more; then a person is asked.
    "opaque_execution": {**_BY_SEVERITY, Severity.HIGH: Level.PAUSE},
    # Nothing of it is carried out: the agent is told, and finally a person; what wastes money has rules of its own.
    "after_refusal": {**_BY_SEVERITY, Severity.CRITICAL: Level.BLOCK},
    # Who goes around a refusal is refused that too, and does not stop there.
    "evasion": {**_BY_SEVERITY, Severity.HIGH: Level.BLOCK, Severity.CRITICAL: Level.KILL},
    # A review is of one step: the step is refused, and the session goes on without it.
    "step_review": {
        **_BY_SEVERITY,
        Severity.MEDIUM: Level.REINFORCE,
        Severity.HIGH: Level.BLOCK,
        Severity.CRITICAL: Level.BLOCK,
    },
    # Across sessions: the session that goes on is killed, then its agent; what is shared is frozen.
    "agent_destruction": {**_BY_SEVERITY, Severity.HIGH: Level.KILL, Severity.CRITICAL: Level.KILL},
    "tree_destruction": {**_BY_SEVERITY, Severity.HIGH: Level.KILL, Severity.CRITICAL: Level.KILL},
    "mission_destruction": {**_BY_SEVERITY, Severity.HIGH: Level.KILL, Severity.CRITICAL: Level.KILL},
    "respawn": {**_BY_SEVERITY, Severity.CRITICAL: Level.KILL},
    "spawn_storm": {**_BY_SEVERITY, Severity.HIGH: Level.KILL, Severity.CRITICAL: Level.KILL},
    "target_destruction": {**_BY_SEVERITY, Severity.HIGH: Level.BLOCK, Severity.CRITICAL: Level.BLOCK},
    "agent_budget": {**_BY_SEVERITY, Severity.CRITICAL: Level.BLOCK},
    "mission_budget": {**_BY_SEVERITY, Severity.CRITICAL: Level.BLOCK},
    # Growth is slowed down before it is stopped.
    "resource_growth": {**_BY_SEVERITY, Severity.HIGH: Level.THROTTLE},
}


def default_level(detector: str, severity: Severity) -> Level:
    """The level that a finding leads to by default."""
    return _BY_RULE.get(detector, _BY_SEVERITY)[severity]


def default_mode(detector: str) -> Mode:
    """The mode of a rule by default."""
    if detector in _SHADOWED:
        return Mode.SHADOW
    return Mode.WARN if detector in _WARNED else Mode.ENFORCE


def is_ask(detector: str, level: Level) -> bool:
    """Whether a decision asks a person about an act, and stops nothing but this call until there is an answer."""
    return level is Level.PAUSE and detector in ASKS


def shown_level(detector: str, level: Level) -> str:
    """The level as people are shown it: of an ask `ASK`."""
    return ASK if is_ask(detector, level) else level.value


def kill_code(detector: str) -> str:
    """What every call of a session that this rule killed is refused with."""
    return "session_killed_loop_guard" if detector in LOOP_GUARD else f"session_killed_{detector}"
