"""Signals in one line each."""

from typing import Any

from haltline.detectors.cross_session.base import CrossSessionPattern
from haltline.schemas.findings import Finding
from haltline.schemas.signals import Signal, SignalKind, SignalScope
from tests.builders import at

IDS = {scope: scope.value for scope in SignalScope} | {SignalScope.FLEET: "*", SignalScope.TARGET: "table=orders"}


def signal(
    seconds: float,
    kind: SignalKind,
    session: str = "s1",
    *,
    scope: SignalScope = SignalScope.AGENT,
    agent: str = "agent",
    **fields: Any,
) -> Signal:
    """A signal at a second of the test; its event is named by session, second and kind: `s1@10 started`."""
    event_id = f"{session}@{seconds:g} {kind}"
    values: dict[str, Any] = {
        "signal_id": f"{scope} {event_id} {fields.get('targets', '')}",
        "kind": kind,
        "scope": scope,
        "id": IDS[scope],
        "session_id": session,
        "agent_id": agent,
        "event_id": event_id,
        "time": at(seconds),
    }
    return Signal.model_validate(values | fields)


def destroys(seconds: float, session: str = "s1", target: str = "table=orders", **fields: Any) -> Signal:
    """An attempt to destroy one thing."""
    return signal(seconds, SignalKind.DESTRUCTIVE, session, **{"target": target, "targets": [target], **fields})


def found(pattern: CrossSessionPattern[Any], *signals: Signal) -> list[Finding]:
    """The findings of a pattern on these signals, with one state."""
    state = pattern.start()
    return [finding for one in signals if (finding := pattern.observe(state, one)) is not None]


def reported(pattern: CrossSessionPattern[Any], *signals: Signal) -> list[str]:
    """The same as event, code and severity: `s1@10 started: spawn_rate high`."""
    return [f"{f.evidence[-1].event_id}: {f.code} {f.severity.value}" for f in found(pattern, *signals)]
