"""What the guard says: events of the session, and answers to decisions. Nothing here waits for the broker."""

import itertools
import logging
import platform
import time
import uuid
from collections.abc import Sequence
from typing import Any, Final

import orjson

from haltline.interventions.agent.call import Call
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
    """Makes the records of one session and hands them to the link."""

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
        self._run = uuid.uuid4().hex[:12]  # tells the ids of this process from those of an earlier one
        self._seq = itertools.count()
        self._answers = itertools.count()
        self._calls = itertools.count()
        self.dropped = 0
        """Records for which there was no room."""
        self._dropped_reported = 0

    def call_id(self) -> str:
        """A new one."""
        return f"{self._run}-c{next(self._calls)}"

    def event(self, kind: Kind, **fields: Any) -> ActionEvent:
        """A new event of the session, now."""
        return ActionEvent(**self._of_session | self._own_fields(kind, fields))

    def call_event(self, kind: Kind, call: Call, **fields: Any) -> "CallEvent":
        """A new event of a call: what it holds was made here, and is not checked again."""
        own, called = self._own_fields(kind, fields), call.describe(self._settings)
        if not self._link.carries:
            return CallEvent(own, (self._whole, called), b"")
        written = orjson.dumps(own, default=_written)[1:-1]
        written = b"{%b,%b,%b}" % (self._of_session_json, written, call.described_json(self._settings))
        return CallEvent(own, (self._of_session, called), written)

    def _own_fields(self, kind: Kind, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields of an event that neither its session nor its call has."""
        seq = next(self._seq)
        own = {"event_id": f"{self._run}-{seq}", "kind": kind, "seq": seq, "time": now_ms(), **fields}
        if self.dropped > self._dropped_reported:
            own["dropped"] = self.dropped - self._dropped_reported
        return own

    def publish(self, event: "ActionEvent | CallEvent", *, must: bool = False) -> bool:
        """Hands an event over, or counts it as dropped; what `must` get through has the last of the room."""
        if not self._link.carries:
            return True
        if self._link.publish(self._actions, event.to_json(), must=must):
            if self.dropped > self._dropped_reported:
                self._dropped_reported = min(self.dropped, self._dropped_reported + (event.dropped or 0))
            return True
        self.dropped += 1
        return False

    def acknowledge(
        self,
        stage: Stage,
        decision_id: str,
        decided_at_ms: int | None,
        *,
        call_id: str | None = None,
        action: str = "",
        detail: str = "",
        children: Sequence[str] = (),
    ) -> None:
        """How far the guard is with a decision. Raises nothing: a decision holds also when this cannot be published."""
        if not self._link.carries:
            return
        try:
            feedback = Feedback(
                feedback_id=f"{self._run}-f{next(self._answers)}",
                decision_id=decision_id,
                stage=stage,
                time=now_ms(),
                decided_at=decided_at_ms,
                call_id=call_id,
                action=action[:512],
                detail=detail[:2000],
                children=list(children[:_MAX_CHILDREN]),
                **self._who,
            )
            published = self._link.publish(self._feedback, feedback.to_json(), must=True)
        except Exception:
            log.exception("haltline: decision %s could not be acknowledged as %s", decision_id, stage)
            published = False
        if not published:
            self.dropped += 1


def _written(record: Record) -> dict[str, Any]:
    """A record in a field of an event, as `to_json` has it: without what is not known."""
    return {name: value for name, value in vars(record).items() if value is not None}


def now_ms() -> int:
    """The wall clock: epoch milliseconds."""
    return time.time_ns() // 1_000_000


class CallEvent:
    """An event of a call as it is written; the event itself is made when somebody asks for it.

    Its fields are its own, and those of its session and its call. What is never written has every field in these.
    """

    __slots__ = ("_own", "_shared", "_written")

    def __init__(self, own: dict[str, Any], shared: tuple[dict[str, Any], dict[str, Any]], written: bytes) -> None:
        self._own = own
        self._shared = shared
        self._written = written

    @property
    def event_id(self) -> str:
        """Its id."""
        return str(self._own["event_id"])

    @property
    def dropped(self) -> int | None:
        """As in the event."""
        return self._own.get("dropped")

    @property
    def event(self) -> ActionEvent:
        """A new one each time."""
        of_session, called = self._shared
        fields = {**of_session, **called, **self._own}
        return made(fields) if self._written else _of(fields)

    def to_json(self) -> bytes:
        """One line of JSON."""
        return self._written


def made(fields: dict[str, Any]) -> ActionEvent:
    """The event of values that are known to be right: pydantic's checks would cost as much as all else.

    A test holds that such events are equal to those that were checked.
    """
    values = {**_DEFAULTS, **fields}
    if "targets" not in fields:
        values["targets"] = []  # one of its own
    return _of(values)
