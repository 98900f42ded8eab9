"""Findings of the author's rules. What one leads to is stated: no strategy and no ladder changes it."""

from typing import Final

from haltline.interventions.author_rules.objection import Objection
from haltline.schemas.decisions import Level, Mode
from haltline.schemas.findings import Evidence, Finding, Severity
from haltline.schemas.intervening import Tripwire
from haltline.schemas.payloads import Remediation
from haltline.schemas.record import Text

AUTHOR_RULES: Final = "author_rules"
"""The rule of their findings, except of tripwires."""
TRIPWIRE: Final = "tripwire_"
"""The beginning of a tripwire's rule and code; its id follows."""
SEVERITIES: Final = {
    Level.ALLOW: Severity.LOW,
    Level.NUDGE: Severity.LOW,
    Level.PAUSE: Severity.MEDIUM,
    Level.BLOCK: Severity.HIGH,
    Level.KILL: Severity.CRITICAL,
}
"""The severity of a finding that states its level."""
LEVELS: Final = {"nudge": Level.NUDGE, "escalate": Level.PAUSE, "block": Level.BLOCK, "halt": Level.KILL}
"""By a tripwire's decision."""


class Stated(Finding):
    """A finding that states its level."""

    level: Level
    mode: Mode = Mode.ENFORCE
    says: Text = ""
    """The text for the model; empty: that of the level."""
    remediation: Remediation | None = None
    """None: that of the level."""
    flag: Severity | None = None
    """Flags the decision for review by a person, where ACGP governs the session."""


def of_objection(objection: Objection, evidence: Evidence) -> Stated:
    """Return the finding of a rule's objection to a call."""
    level = Level.BLOCK if objection.blocks else Level.NUDGE
    return Stated(
        detector=AUTHOR_RULES,
        code=objection.code,
        severity=SEVERITIES[level],
        reason=objection.detail[:16_000],
        evidence=(evidence,),
        values=objection.values,
        thresholds=objection.thresholds,
        level=level,
        says=objection.message,
        remediation=objection.remediation,
    )


def of_tripwire(wire: Tripwire, mode: Mode, missing: str | None, evidence: Evidence) -> Stated:
    """Return the finding of a tripwire; `missing`: why it cannot be evaluated: then it refuses, and does not halt."""
    level, says = LEVELS[wire.on_fail.decision], wire.on_fail.reason or wire.condition
    if missing is not None:
        level, says = min(level, Level.BLOCK), f"{wire.condition} cannot be evaluated: {missing}"
    return Stated(
        detector=f"{TRIPWIRE}{wire.id}"[:256],
        code=f"{TRIPWIRE}{wire.id}",
        severity=SEVERITIES[level],
        reason=f"tripwire {wire.id}: {says}"[:16_000],
        evidence=(evidence,),
        level=level,
        mode=mode,
        flag=wire.flag,
    )
