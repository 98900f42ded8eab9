"""The decisions for findings of each rule under the default policy, by the deciding code, as a table."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from haltline.detectors import BY_ID
from haltline.detectors.cross_session import ACROSS_BY_ID
from haltline.detectors.cross_session.base import CrossSessionPattern
from haltline.detectors.framework.base import Detector
from haltline.interventions.control import approvals
from haltline.interventions.decide import cross_session
from haltline.interventions.decide.level_selection import LevelSelection
from haltline.interventions.levels import hold
from haltline.interventions.levels.default_levels import ASK, is_ask
from haltline.interventions.state.context import NOTHING, Context
from haltline.interventions.state.session_control import SessionControl
from haltline.schemas.decisions import Decision, Level, Mode, ScopeKind
from haltline.schemas.events import Effect, Kind
from haltline.schemas.findings import Evidence, Finding, Severity
from haltline.schemas.policy import Policy
from haltline.schemas.signals import Signal
from haltline.streams.engine.effective_rules import rule_of
from tests.builders import at, event
from tests.interventions.cases import Deed

FILE = Path(__file__).with_name("ladder.txt")
POLICY = Policy()
TIMES = (1, 3, 10)
BETWEEN_S = 60.0
"""Seconds from one finding to the next: more than the cooldown, in which the same hint is not given twice."""
NOTHING_SAID = "recorded"
HELD = "PAUSE the session"
_KINDS = (Kind.PROPOSED, Kind.COMPLETED, Kind.MODEL_TURN)


def finding_of(rule: str, severity: Severity, event_id: str) -> Finding:
    """A finding as the rule makes it, as far as decisions look at it."""
    return Finding(detector=rule, code=rule, severity=severity, reason="seen", evidence=(Evidence(event_id=event_id),))


def of_session(detector: type[Detector[Any]], severity: Severity) -> Iterator[str]:
    """The decision on each finding in a session."""
    selection, standing = LevelSelection(POLICY), SessionControl()
    rule = rule_of(POLICY, detector, ())
    kind = next(kind for kind in _KINDS if kind in detector.reads)
    args = None if kind is Kind.MODEL_TURN else {"asset_id": "a"}
    for number in range(TIMES[-1]):
        on = event(number * BETWEEN_S, "get_asset", kind=kind, outcome=None, args=args, event_id=f"e{number}")
        found = [finding_of(detector.id, severity, on.event_id)]
        deed = Deed(step=number + 1, fingerprint=f"call {number}", is_result=kind is not Kind.PROPOSED)
        hold.on_attempt(standing, deed, POLICY.operated.hold)
        context = NOTHING if kind is Kind.MODEL_TURN else Context(deed=deed)
        decision, shadow = selection.decide(standing, on, found, {detector.id: rule}, dict, context=context)
        decision = approvals.on_event(standing, on, decision, POLICY, lambda: Effect.READ)
        is_held = standing.held is not None
        yield _said(decision or shadow, "the session" if is_held else "") if decision or not is_held else HELD


def of_scope(pattern: type[CrossSessionPattern[Any]], severity: Severity) -> Iterator[str]:
    """The decision on each finding across sessions."""
    standing, rule = cross_session.ScopeStatus(), rule_of(POLICY, pattern, ())
    stands = ""
    for number in range(TIMES[-1]):
        signal = Signal(
            signal_id=f"s{number}",
            kind=next(iter(sorted(pattern.consumes))),
            scope=pattern.scope,
            id="a1",
            session_id=f"session-{number}",
            agent_id="a1",
            event_id=f"e{number}",
            time=at(number * BETWEEN_S),
        )
        measures = cross_session.decide(POLICY, standing, signal, finding_of(pattern.id, severity, f"e{number}"), rule)
        if measures is not None and (decision := measures.decision) is not None:
            reach = decision.scope
            stops = decision.level >= Level.PAUSE
            stands = _said(decision, reach.value if stops and reach is not ScopeKind.SESSION else "")
        yield stands


def _said(decision: Decision | None, more: str) -> str:
    if decision is None or (decision.level is Level.ALLOW and decision.mode is not Mode.WARN):
        return NOTHING_SAID
    if is_ask(decision.detector, decision.level):
        return ASK
    if decision.level is Level.PAUSE or (more and decision.level is Level.KILL):
        return f"{decision.level.value} {more}".strip()
    return decision.level.value


def table() -> str:
    """The document."""
    rows = ["| rule | severity | first | third | tenth |", "| --- | --- | --- | --- | --- |"]
    for name, detector in sorted({**BY_ID, **ACROSS_BY_ID}.items()):
        by_outcome: dict[tuple[str, ...], list[str]] = {}
        for severity in Severity:
            if issubclass(detector, Detector):
                result = list(of_session(detector, severity))
            else:
                assert issubclass(detector, CrossSessionPattern)
                result = list(of_scope(detector, severity))
            by_outcome.setdefault(tuple(result[time - 1] for time in TIMES), []).append(severity.value)
        mode = rule_of(POLICY, detector, ()).mode
        shown = f"`{name}`" if mode is Mode.ENFORCE else f"`{name}` ({mode.value})"
        for cells, severities in by_outcome.items():
            rows.append(f"| {shown} | {', '.join(severities)} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"
