"""Several rules find a lack of progress at the same time: each is uncertain alone, together they are not.

Fires: `agreement`, critical, when at least two rules that look for a lack of progress found something within the last
    `last_actions` actions, and their findings add up to at least `points`. A medium finding counts 1 point, a high one
    2, a critical one 3; only the last finding of each rule counts. So two weak findings of different rules stop a
    session some steps before either rule alone would.
Quiet: a single rule, however often it finds something; a medium finding of `stagnation` beside one of
    `error_repetition`, as both count the same errors; findings of rules in shadow mode, which decide nothing; findings
    about anything other than progress, such as destruction or spending.
Misses: a lack of progress that only one rule finds.
"""

from typing import Annotated, ClassVar, Final

from msgspec import field
from pydantic import Field

from haltline.detectors.features.observation import Observation
from haltline.detectors.framework.base import Detector, settings
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import INDEX, Entry, entry, evidence
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.stored import Stored

PARTS: Final = frozenset((
    "cycle", "duplicate_acts", "environment_gone", "error_repetition", "fruitless_search", "fruitless_waits",
    "invented_data", "monologue", "repetition", "silent_shell", "stagnation",
))  # fmt: skip
"""The rules that look for a lack of progress. Not `polling`: what waits may be slow, and is slowed down."""

_SAME_FACT: Final = {"repetition": "error_repetition"}
_POINTS: Final = {Severity.LOW: 0, Severity.MEDIUM: 1, Severity.HIGH: 2, Severity.CRITICAL: 3}
_SCORE, _SEVERITY = 4, 5


class AgreementState(Stored):
    """The last finding of each rule."""

    last: dict[str, Entry] = field(default_factory=dict)


@settings
class Agreement(Detector[AgreementState]):
    """Several rules found a lack of progress close together."""

    id: ClassVar[str] = "agreement"
    reads: ClassVar[frozenset[Kind]] = frozenset(Kind)

    points: Annotated[int, Field(ge=2, le=9), Stricter.LOWER] = 3
    """Total points at which the findings are reported."""
    last_actions: Annotated[int, Field(ge=0, le=1_000), Stricter.HIGHER] = 4
    """Actions. Findings at most this far apart count together."""

    def concerns(self, act: Observation) -> bool:
        """Return whether an enforced rule about progress has a finding on this event."""
        return bool(act.enforced) and any(f.detector in PARTS for f in act.enforced)

    def observe(self, state: AgreementState, act: Observation) -> Finding | None:
        """Record the findings, and add up those that are close together."""
        for finding in act.enforced:
            if finding.detector in PARTS and finding.severity > Severity.LOW:
                state.last[finding.detector] = entry(act, _POINTS[finding.severity], finding.severity.value)
        oldest = act.index - self.last_actions
        state.last = {rule: e for rule, e in state.last.items() if int(e[INDEX]) >= oldest}
        facts = _facts(state)
        points = sum(facts.values())
        if len(facts) < 2 or points < self.points:
            return None
        rules = sorted(state.last, key=lambda rule: -int(state.last[rule][_SCORE]))
        named = ", ".join(f"{rule} ({state.last[rule][_SEVERITY]})" for rule in rules)
        return self.finding(
            "agreement",
            Severity.CRITICAL,
            f"{len(rules)} rules within {self.last_actions} actions: {named}",
            evidence(act, [*(state.last[rule] for rule in rules), entry(act)]),
            confidence=min(1.0, points / (self.points + 1)),
            values={"points": points, "rules": ", ".join(rules)},
            thresholds=self.thresholds("points", "last_actions"),
        )

    def near(self, state: AgreementState) -> float:
        """The points of the last findings, relative to `points`."""
        return min(1.0, sum(_facts(state).values()) / self.points)


def _facts(state: AgreementState) -> dict[str, int]:
    """Points by fact: rules that detect the same fact count once, with the most points."""
    facts: dict[str, int] = {}
    for rule, found in state.last.items():
        if rule == "stagnation" and int(found[_SCORE]) < _POINTS[Severity.HIGH] and "error_repetition" in state.last:
            continue  # it counts the same errors, and little else
        fact = _SAME_FACT.get(rule, rule)
        facts[fact] = max(facts.get(fact, 0), int(found[_SCORE]))
    return facts
