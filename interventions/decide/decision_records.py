"""The records of decisions on an event. Pure."""

from typing import Any

from haltline.interventions.levels import hold
from haltline.interventions.levels.default_levels import kill_code
from haltline.interventions.levels.strategies import Chosen
from haltline.interventions.state import texts
from haltline.interventions.state.effects import SessionRef
from haltline.interventions.state.records import about, control_record, flagged, found, record_of
from haltline.interventions.state.session_control import Freeze, Kill, SessionControl, digest
from haltline.schemas.control import HALTLINE, ControlState
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.findings import Finding
from haltline.schemas.policy import Policy
from haltline.schemas.tools import ends_turn

MAX_REASON_CHARS = 16_384
"""Maximum length of a decision's reason."""

ALLOWED = "allowed"
"""The code of a plain verdict."""


def of_finding(policy: Policy, event: ActionEvent, chosen: Chosen, decision_id: str, **fields: Any) -> Decision:
    """Return the decision for a finding; `fields` has the level's payload."""
    finding, level, meant = chosen.finding, chosen.level, chosen.meant
    flag = meant >= Level.PAUSE or chosen.last_hint
    return Decision(
        decision_id=decision_id,
        level=level,
        code=kill_code(finding.detector) if level is Level.KILL else finding.code,
        reason=finding.reason,
        flag=flag,
        flag_severity=finding.severity if flag else None,
        detector=finding.detector,
        confidence=finding.confidence,
        mode=chosen.mode,
        would=None if meant is level else meant,
        experiment=chosen.arm,
        **about(event, policy),
        **found(finding),
        **fields,
    )


def without_finding(control: SessionControl, event: ActionEvent, policy: Policy) -> Decision | None:
    """Return the verdict on an event without findings, if one is awaited."""
    if not event.await_verdict:
        return None
    held = control.held
    if held is not None and hold.is_held(control) and event.kind is Kind.PROPOSED and not ends_turn(event.action):
        code = held.code or "session_frozen_by_operator"
        return Decision(
            decision_id=digest("held", event.session_id, event.event_id),
            level=Level.PAUSE,
            code=code,
            reason=f"the session is held: {held.reason}"[:MAX_REASON_CHARS],
            message=texts.of_entry(record_of(_who(event), ControlState.FROZEN, code, held)),
            detector=hold.DETECTOR,
            **about(event, policy),
        )
    return Decision(
        decision_id=digest("verdict", event.session_id, event.event_id),
        level=Level.ALLOW,
        code=ALLOWED,
        reason="nothing against it",
        **about(event, policy),
    )


def after_kill(
    policy: Policy, event: ActionEvent, kill: Kill, finding: Finding | None, attempts: int, **fields: Any
) -> Decision:
    """Return the refusal of what a killed session does; `attempts`: how much it did since."""
    values = {"attempts_after_kill": attempts, **(finding.values if finding else {})}
    return Decision(
        decision_id=digest("killed", event.session_id, event.event_id),
        level=Level.KILL,
        code=kill.code,
        reason=finding.reason if finding else f"the session was killed before: {kill.reason}"[:MAX_REASON_CHARS],
        message=texts.of_entry(control_record(_who(event), kill)),
        detector="killed",
        **about(event, policy),
        **(flagged(finding) | {"values": values}),
        **fields,
    )


def kill_of_held(event: ActionEvent, held: Freeze) -> Kill:
    """Return the kill of a session that went on while it was held."""
    reason = f"{held.turns} turns with refused calls while the session was held: {held.reason}"[:MAX_REASON_CHARS]
    return Kill(digest("held", event.session_id, event.event_id), hold.WENT_ON, reason, HALTLINE, event.time)


def went_on(policy: Policy, event: ActionEvent, kill: Kill, held: Freeze, **fields: Any) -> Decision:
    """Return the decision of that kill."""
    return Decision(
        decision_id=kill.decision_id,
        level=Level.KILL,
        code=kill.code,
        reason=kill.reason,
        flag=True,
        detector=hold.DETECTOR,
        values={"turns": held.turns},
        thresholds={"kill_after": policy.operated.hold.kill_after},
        **about(event, policy),
        **fields,
    )


def _who(event: ActionEvent) -> SessionRef:
    return SessionRef(event.session_id, event.agent_id)
