"""Two kinds of findings that are worse together: each combination multiplies the risk of the session.

Fires: when one of two rules has a finding on an event, and the other had one within `window_s` or within the last
    `last_actions` actions. The combinations are `runaway_execution` (resource_growth and goal_drift, 2.0) and
    `confused_state` (hallucination and scope_creep, 1.8). The risk is that of the worst finding, severity (0.2, 0.5,
    0.8, 1.0) times confidence, times the multiplier of every combination that applies, at most 1. Critical from 0.9 on,
    high from 0.7, medium from 0.5, else low.
Quiet: either of the two alone, however often; findings that are further apart; rules that are switched off.
Misses: what the combined rules miss. Some of them are in shadow mode by default, and so is this one.
"""

from typing import Annotated, ClassVar, Final

from pydantic import Field

from haltline.detectors.combining.agreement import AgreementState
from haltline.detectors.features.observation import Observation
from haltline.detectors.framework.base import Detector, settings
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import Entry, entry, evidence, is_near
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.record import Values

COMBINATIONS: Final = (
    ("runaway_execution", "resource_growth", "goal_drift", 2.0),
    ("confused_state", "hallucination", "scope_creep", 1.8),
)
"""Name, the two rules, and their multiplier of the risk; the highest multiplier first."""

_PARTS: Final = frozenset(rule for _, *rules, _ in COMBINATIONS for rule in rules)
_BASE: Final = {Severity.LOW: 0.2, Severity.MEDIUM: 0.5, Severity.HIGH: 0.8, Severity.CRITICAL: 1.0}
_FROM: Final = ((0.9, Severity.CRITICAL), (0.7, Severity.HIGH), (0.5, Severity.MEDIUM))
_SCORE: Final = 4
_PLACES: Final = 9
"""Products are rounded before comparison: 0.5 * 1.8 must be 0.9."""


@settings
class Combination(Detector[AgreementState]):
    """Both rules of a combination found something close together."""

    id: ClassVar[str] = "combination"
    optional: ClassVar[bool] = True
    reads: ClassVar[frozenset[Kind]] = frozenset(Kind)
    combines: ClassVar[bool] = True

    window_s: Annotated[float, Field(gt=0, le=2_592_000), Stricter.HIGHER] = 600.0
    """Seconds. Findings at most this far apart count together."""
    last_actions: Annotated[int, Field(ge=1, le=10_000), Stricter.HIGHER] = 40
    """Findings within this many actions of the session also count together, however long they took."""

    def concerns(self, act: Observation) -> bool:
        """Return whether one of the rules has a finding on this event."""
        return bool(act.found) and any(f.detector in _PARTS for f in act.found)

    def observe(self, state: AgreementState, act: Observation) -> Finding | None:
        """Record the findings, and look for combinations."""
        new = set()
        for finding in act.found:
            if finding.detector in _PARTS:
                new.add(finding.detector)
                score = round(_BASE[finding.severity] * finding.confidence, _PLACES)
                state.last[finding.detector] = entry(act, score)
        together = {
            rule: e for rule, e in state.last.items() if rule in new or is_near(e, act.time_ms, act.index, self)
        }
        held = [c for c in COMBINATIONS if not new.isdisjoint(c[1:3]) and c[1] in together and c[2] in together]
        return self._found(act, together, held) if held else None

    def near(self, state: AgreementState) -> float:
        """0.5 once one of the rules found something."""
        return 0.5 if state.last else 0.0

    def _found(self, act: Observation, together: dict[str, Entry], held: list[tuple[str, str, str, float]]) -> Finding:
        rules = list(dict.fromkeys(rule for _, one, other, _ in held for rule in (one, other)))
        worst = max(float(together[rule][_SCORE]) for rule in rules)
        multiplier = 1.0
        for *_, factor in held:
            multiplier *= factor
        risk = min(1.0, round(worst * multiplier, _PLACES))
        severity = next((severity for least, severity in _FROM if risk >= least), Severity.LOW)
        names = " and ".join(name for name, *_ in held)
        values: Values = {"risk": risk, "worst": worst, "multiplier": round(multiplier, 3), "rules": ", ".join(rules)}
        return self.finding(
            held[0][0],
            severity,
            f"{names}: {', '.join(rules)} combine to a risk of {risk:g}, {worst:g} times {multiplier:g}",
            evidence(act, [*(together[rule] for rule in rules), entry(act)]),
            confidence=risk,
            values=values,
            thresholds=self.thresholds("window_s", "last_actions"),
        )
