"""Short constructors of events, and parameter tables of cases."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pytest

from haltline.detectors.features.observation import CallTracker, Observation
from haltline.detectors.features.tool_classifier import Classifier
from haltline.detectors.framework.base import Detector
from haltline.schemas.control import Batch
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.schemas.findings import Evidence, Finding
from haltline.schemas.policy import Policy

Events = Iterable[ActionEvent | Sequence[ActionEvent]]
"""Events, and calls, which count as their events in order."""
Made = TypeVar("Made")
T0_MS = 1_750_000_000_000
"""The moment that tests call second 0."""


def cases(names: str, rows: Mapping[str, object]) -> pytest.MarkDecorator:
    """Run a test once for each row: `{"what it shows": values}`, with `names` of the values as "events, found".

    Values are a tuple, or the value itself where there is only one name. As `pytest.mark.parametrize`, whose ids come
    last.
    """
    single = "," not in names
    values = [pytest.param(*((row,) if single else row), id=shows) for shows, row in rows.items()]  # type: ignore[misc]  # a tuple
    return pytest.mark.parametrize(names, values)


def some(value: Made | None) -> Made:
    """The value, which is expected to be there."""
    assert value is not None
    return value


def at(seconds: float) -> int:
    """Epoch milliseconds of a second of the test."""
    return T0_MS + round(seconds * 1000)


def event(
    seconds: float,
    action: str = "look_up",
    target: str | None = None,
    error: str | None = None,
    *,
    session: str = "s1",
    **fields: Any,
) -> ActionEvent:
    """A completed call that was never proposed, at a second of the test; other fields by name.

    Its id is made of session, second, action and target, so that expectations can name it: `s1@10 look_up`.
    """
    result: dict[str, Any] = {
        "event_id": f"{session}@{seconds:g} {action}" + (f" {target}" if target else ""),
        "kind": Kind.COMPLETED,
        "session_id": session,
        "agent_id": "agent",
        "time": at(seconds),
        "action": action,
        "targets": [target] if target else [],
        "error": error,
        "outcome": Outcome.OK if error is None else Outcome.ERROR,
    }
    return ActionEvent.model_validate(result | fields)


def delete(seconds: float, target: str = "asset_id=fact_sales", **fields: Any) -> ActionEvent:
    """A completed `delete_asset`."""
    return event(seconds, "delete_asset", target, **fields)


def bash(seconds: float, command: str, error: str | None = None, **fields: Any) -> ActionEvent:
    """A completed shell command."""
    return event(seconds, "bash", None, error, args={"command": command}, event_id=f"s1@{seconds:g}", **fields)


def call(
    seconds: float,
    action: str = "look_up",
    target: str | None = None,
    error: str | None = None,
    *,
    took_s: float = 0.5,
    session: str = "s1",
    outcome: Outcome | None = None,
    args: dict[str, Any] | None = None,
    **result: Any,
) -> tuple[ActionEvent, ActionEvent]:
    """A call that is proposed, and completed `took_s` later; the result names only the call. Other fields are its."""
    proposed = event(seconds, action, target, session=session, kind=Kind.PROPOSED, outcome=None, args=args)
    proposed = proposed.model_copy(update={"call_id": f"call {proposed.event_id}"})
    completed = ActionEvent.model_validate(
        {
            "event_id": f"{proposed.event_id} result",
            "kind": Kind.COMPLETED,
            "session_id": session,
            "agent_id": "agent",
            "time": at(seconds + took_s),
            "call_id": proposed.call_id,
            "error": error,
            "outcome": outcome or (Outcome.OK if error is None else Outcome.ERROR),
        }
        | result
    )
    return proposed, completed


_BY_DEFAULT = Classifier(Policy())
"""The classifier of tests without a policy of their own: its cache of tools is shared."""


def each(seconds: int | Iterable[float], make: Callable[..., Made], *args: Any, **fields: Any) -> list[Made]:
    """The events made at each of these seconds; a number: at that many seconds, from 0."""
    return [make(second, *args, **fields) for second in (range(seconds) if isinstance(seconds, int) else seconds)]


def in_turn(
    starts: Iterable[float], *makes: Callable[[float], ActionEvent | Sequence[ActionEvent]]
) -> list[ActionEvent]:
    """At each of these seconds what the first makes, and what each further one makes a second after the one before."""
    return [e for start in starts for n, make in enumerate(makes) for e in in_order([make(start + n)])]


def evidence(events: Iterable[ActionEvent], *, first: int = 0) -> tuple[Evidence, ...]:
    """These events one after the other in the log, from this offset on, as a finding names them."""
    return tuple(
        Evidence(event_id=e.event_id, topic="haltline.actions", partition=0, offset=offset)
        for offset, e in enumerate(events, first)
    )


def observed(*events: ActionEvent, calls: CallTracker | None = None) -> list[Observation]:
    """The observation of each event of a session; `calls` then records the event."""
    known, shown = CallTracker() if calls is None else calls, []
    for e in events:
        phase, call = known.phase(e)
        act = Observation(e, classifier=_BY_DEFAULT, phase=phase, call=call, calls=known)
        _ = act.losses, act.effect  # as a detector would ask, before the event is noted
        known.note(act)
        shown.append(act)
    return shown


class Together:
    """One session under several detectors, as the engine runs it: what is worked out of an event is theirs together."""

    def __init__(
        self, detectors: Sequence[Detector[Any]], policy: Policy | None = None, batch: Batch | None = None
    ) -> None:
        self.detectors = detectors
        self.classifier = _BY_DEFAULT if policy is None else Classifier(policy)
        self.calls = CallTracker()
        self.states = [detector.start() for detector in detectors]
        self.batch = batch
        self.offset = 0
        self._recalled = any(detector.recalls for detector in detectors)

    def observe(self, event: ActionEvent, found: Sequence[Finding] = ()) -> list[Finding]:
        """The detectors' findings on the session's next event, for which others have already `found` something."""
        phase, call = self.calls.phase(event)
        act = Observation(
            event,
            classifier=self.classifier,
            phase=phase,
            call=call,
            calls=self.calls,
            topic="haltline.actions",
            partition=0,
            offset=self.offset,
            recalled=self._recalled,
        )
        act.batch = self.batch
        act.found = act.enforced = found
        findings = [
            finding
            for detector, state in zip(self.detectors, self.states, strict=True)
            if event.kind in detector.reads and detector.sees & act.sights and detector.concerns(act)
            if (finding := detector.observe(state, act)) is not None
        ]
        self.calls.note(act)
        self.offset += 1
        return findings


class Watched(Together):
    """One session under one detector."""

    def __init__(self, detector: Detector[Any], policy: Policy | None = None, batch: Batch | None = None) -> None:
        super().__init__([detector], policy, batch)
        self.detector = detector

    @property
    def state(self) -> Any:
        return self.states[0]

    @state.setter
    def state(self, state: Any) -> None:
        self.states[0] = state

    def __call__(self, event: ActionEvent, found: Sequence[Finding] = ()) -> Finding | None:
        """The detector's finding on the session's next event, for which others have already `found` something."""
        return next(iter(self.observe(event, found)), None)


def findings(
    detector: Detector[Any], events: Events, policy: Policy | None = None, batch: Batch | None = None
) -> list[tuple[ActionEvent, Finding]]:
    """Every finding with the event that completed it."""
    watched = Watched(detector, policy, batch)
    return [(e, finding) for e in in_order(events) if (finding := watched(e)) is not None]


def in_order(events: Events) -> Iterator[ActionEvent]:
    """Events one by one: a call as its events."""
    for item in events:
        yield from (item,) if isinstance(item, ActionEvent) else item


def fires_at(detector: Detector[Any], events: Events, **context: Any) -> list[tuple[float, str, str]]:
    """Second, code and severity of every finding."""
    return [
        ((e.time - T0_MS) / 1000, finding.code, finding.severity.value)
        for e, finding in findings(detector, events, **context)
    ]


def severities(detector: Detector[Any], events: Events, **context: Any) -> str:
    """The severities of the findings by their first letters: "mhc" of a medium, a high and a critical one."""
    return "".join(finding.severity.value[0] for _, finding in findings(detector, events, **context))


def when(detector: Detector[Any], events: Events, **context: Any) -> str:
    """The findings, each by its second and the first letter of its severity: "6l 12c" of a low and a critical one."""
    return " ".join(f"{second:g}{severity[0]}" for second, _, severity in fires_at(detector, events, **context))


def nearness(detector: Detector[Any], events: Events) -> list[float]:
    """How close to a finding the detector says it is at the start, and after each event; rounded to hundredths."""
    watched = Watched(detector)
    near = [detector.near(watched.state)]
    for e in in_order(events):
        watched(e)
        near.append(round(detector.near(watched.state), 2))
    return near
