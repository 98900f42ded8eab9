"""Several rules see the session get nowhere at the same time: each is unsure, together they are not.

Fires: `agreement`, critical, when at least two rules that look for a lack of progress found something within the last
    `last_actions` actions, and their findings add up to `points`: a medium one counts 1, a high one 2, a critical
    one 3; of each rule the last finding counts. So a hint of one rule and a warning of another stop a session that
    neither would stop for some steps yet.
Quiet: one rule alone, however often it finds something; findings of rules in shadow, which decide nothing; findings
    about anything else than progress, such as destruction or spending.
Misses: what only one rule sees.
"""

from typing import Annotated, ClassVar, Final

from msgspec import Struct, field
from pydantic import Field

from haltline.detectors.features.observation import Observation
from haltline.detectors.framework.base import Detector, settings
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import INDEX, Entry, entry, evidence
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding, Severity

PARTS: Final = frozenset(
    {
        "cycle",
        "environment_gone",
        "error_repetition",
        "fruitless_search",
        "fruitless_waits",
        "invented_data",
        "monologue",
        "polling",
        "repetition",
        "stagnation",
    }
)
"""The rules that look for a lack of progress."""

_SAME_FACT: Final = {"repetition": "error_repetition"}
_POINTS: Final = {Severity.LOW: 0, Severity.MEDIUM: 1, Severity.HIGH: 2, Severity.CRITICAL: 3}
_SCORE, _SEVERITY = 4, 5


class State(Struct):
    """By rule: its last finding."""

    last: dict[str, Entry] = field(default_factory=dict)


@settings
class Agreement(Detector[State]):
    """Several rules found a lack of progress close together."""

    id: ClassVar[str] = "agreement"
    reads: ClassVar[frozenset[Kind]] = frozenset(Kind)

    points: Annotated[int, Field(ge=2, le=9), Stricter.LOWER] = 3
    """Points that the findings have to add up to."""
    last_actions: Annotated[int, Field(ge=0, le=1_000), Stricter.HIGHER] = 4
    """Actions. Findings that lie no further apart count together."""

    def concerns(self, act: Observation) -> bool:
        """Events on which one of the rules found something that counts."""
        return bool(act.enforced) and any(f.detector in PARTS for f in act.enforced)

    def observe(self, state: State, act: Observation) -> Finding | None:
        """Notes the findings, and adds up those that are close together."""
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

    def near(self, state: State) -> float:
        """The points of the last findings, to those that are a finding."""
        return min(1.0, sum(_facts(state).values()) / self.points)


def _facts(state: State) -> dict[str, int]:
    """Points by what was seen: of rules that see the same, the most."""
    facts: dict[str, int] = {}
    for rule, found in state.last.items():
        fact = _SAME_FACT.get(rule, rule)
        facts[fact] = max(facts.get(fact, 0), int(found[_SCORE]))
    return facts
