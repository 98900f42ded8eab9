"""Publishing of the session's events, and of feedback on decisions. Never waits for the broker."""

import itertools
import logging
import platform
import time
import uuid
from typing import Any, Final, Unpack

import orjson

from haltline.interventions.agent.call import Call
from haltline.interventions.agent.enforcement.enforcer import About
from haltline.interventions.agent.settings import DEFAULT_AGENT, GuardSettings
from haltline.interventions.agent.transport.transport import Transport
from haltline.schemas.control import Feedback, Stage
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.record import Record, trusting
from haltline.schemas.topics import Topics

_DEFAULTS: Final = {
    name: field.get_default(call_default_factory=False)
    for name, field in ActionEvent.model_fields.items()
    if not field.is_required()
}

_of: Final = trusting(ActionEvent)

log: Final = logging.getLogger("haltline.agent")

_MAX_CHILDREN = 10_000


class EventPublisher:
    """Creates the records of one session and passes them to its transport."""

    def __init__(self, settings: GuardSettings, link: Transport) -> None:
        self._link = link
        self._settings = settings
        topics = Topics(settings.topic_prefix)
        self._actions, self._feedback = topics.actions, topics.feedback
        self._who = {"session_id": settings.session_id, "agent_id": settings.agent_id}
        family = {
            "parent_session_id": settings.parent_session_id,
            "root_session_id": settings.root_session_id,
            "mission_id": settings.mission_id,
        }
        if settings.agent_id == DEFAULT_AGENT:
            family["host"] = platform.node()[:256] or None
        self._of_session = (
            {"v": 1} | self._who | {name: session for name, session in family.items() if session is not None}
        )
        self._of_session_json = orjson.dumps(self._of_session)[1:-1]
        self._whole = _DEFAULTS | self._of_session
        self._run = uuid.uuid4().hex[:12]  # distinguishes the ids of this process from earlier ones
        self._seq = itertools.count()
        self._answers = itertools.count()
        self._calls = itertools.count()
        self.dropped = 0
        """Records dropped because the queue was full."""
        self._dropped_reported = 0

    def call_id(self) -> str:
        """Return a new call id."""
        return f"{self._run}-c{next(self._calls)}"

    def event(self, kind: Kind, **fields: Any) -> ActionEvent:
        """Return a new event of the session, with the current time."""
        return ActionEvent(**self._of_session | self._own_fields(kind, fields))

    def call_event(self, kind: Kind, call: Call, fields: dict[str, Any]) -> "CallEvent":
        """Return a new event of a call. Its fields were created here, and are not validated again."""
        own, called = self._own_fields(kind, fields), call.describe(self._settings)
        written = b""
        if self._link.carries:
            written = orjson.dumps(own, default=_written)[1:-1]
            written = b"{%b,%b,%b}" % (self._of_session_json, written, call.described_json(self._settings))
        return CallEvent(own, (self._whole, called), written)

    def _own_fields(self, kind: Kind, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of an event that are neither its session's nor its call's."""
        seq = next(self._seq)
        own = {"event_id": f"{self._run}-{seq}", "kind": kind, "seq": seq, "time": now_ms(), **fields}
        if self.dropped > self._dropped_reported:
            own["dropped"] = self.dropped - self._dropped_reported
        return own

    def publish(self, event: "ActionEvent | CallEvent", *, must: bool = False) -> bool:
        """Queue an event, or count it as dropped. With `must`, it may use the reserved room of the queue."""
        if not self._link.carries:
            return True
        if self._link.publish(self._actions, event.to_json(), must=must):
            if self.dropped > self._dropped_reported:
                self._dropped_reported = min(self.dropped, self._dropped_reported + (event.dropped or 0))
            return True
        self.dropped += 1
        return False

    def acknowledge(self, stage: Stage, decision_id: str, decided_at_ms: int | None, **about: Unpack[About]) -> None:
        """Publish the progress of a decision. Does not raise: a decision applies even if this cannot be published."""
        if not self._link.carries:
            return
        try:
            feedback = Feedback(
                feedback_id=f"{self._run}-f{next(self._answers)}",
                decision_id=decision_id,
                stage=stage,
                time=now_ms(),
                decided_at=decided_at_ms,
                call_id=about.get("call_id"),
                action=about.get("action", "")[:512],
                detail=about.get("detail", "")[:2000],
                children=list(about.get("children", ())[:_MAX_CHILDREN]),
                **self._who,
            )
            published = self._link.publish(self._feedback, feedback.to_json(), must=True)
        except Exception:
            log.exception("haltline: decision %s could not be acknowledged as %s", decision_id, stage)
            published = False
        if not published:
            self.dropped += 1


def _written(record: Record) -> dict[str, Any]:
    """Return a record in a field of an event as `to_json` writes it: without unknown fields."""
    return {name: value for name, value in vars(record).items() if value is not None}


def now_ms() -> int:
    """Return the wall clock in epoch milliseconds."""
    return time.time_ns() // 1_000_000


class CallEvent:
    """An event of a call in its written form; the event object is created on request.

    Its fields are its own, and those of its session, with the defaults of all others, and its call.
    """

    __slots__ = ("_own", "_shared", "_written", "event_id")

    def __init__(self, own: dict[str, Any], shared: tuple[dict[str, Any], dict[str, Any]], written: bytes) -> None:
        self.event_id = str(own["event_id"])
        self._own = own
        self._shared = shared
        self._written = written

    @property
    def dropped(self) -> int | None:
        """The event's count of dropped records."""
        return self._own.get("dropped")

    @property
    def event(self) -> ActionEvent:
        """A new event object on each access."""
        of_session, called = self._shared
        return _of({**of_session, **called, **self._own})

    def to_json(self) -> bytes:
        """Return one line of JSON."""
        return self._written


def made(fields: dict[str, Any]) -> ActionEvent:
    """Create an event from valid values without pydantic's checks, which would double the time.

    A test checks that such events equal validated ones.
    """
    values = {**_DEFAULTS, **fields}
    if "targets" not in fields:
        values["targets"] = []  # a list of its own
    return _of(values)
