"""What the guard says: events of the session, and answers to decisions. Nothing here waits for the broker."""

import itertools
import logging
import time
import uuid
from collections.abc import Sequence
from typing import Any, Final

from haltline.interventions.agent.link import Link
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.control import Feedback, Stage
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.topics import Topics

log: Final = logging.getLogger("haltline.agent")

_MAX_CHILDREN = 10_000


class Reporter:
    """Makes the records of one session and hands them to the link."""

    def __init__(self, settings: GuardSettings, link: Link) -> None:
        self._link = link
        self._topics = Topics(settings.topic_prefix)
        self._who = {"session_id": settings.session_id, "agent_id": settings.agent_id}
        self._family = {
            "parent_session_id": settings.parent_session_id,
            "root_session_id": settings.root_session_id,
            "mission_id": settings.mission_id,
        }
        self._run = uuid.uuid4().hex[:12]  # tells the ids of this process from those of an earlier one
        self._seq = itertools.count()
        self._answers = itertools.count()
        self._calls = itertools.count()
        self.dropped = 0
        """Records for which there was no room."""
        self._dropped_told = 0

    def call_id(self) -> str:
        """A new one."""
        return f"{self._run}-c{next(self._calls)}"

    def event(self, kind: Kind, **fields: Any) -> ActionEvent:
        """A new event of the session, now."""
        seq = next(self._seq)
        if self.dropped > self._dropped_told:
            fields["dropped"] = self.dropped - self._dropped_told
        return ActionEvent(
            event_id=f"{self._run}-{seq}", kind=kind, seq=seq, time=now_ms(), **self._who, **self._family, **fields
        )

    def publish(self, event: ActionEvent, *, must: bool = False) -> bool:
        """Hands an event over, or counts it as dropped; what `must` get through has the last of the room."""
        if self._link.publish(self._topics.actions, event.to_json(), must=must):
            self._dropped_told = min(self.dropped, self._dropped_told + (event.dropped or 0))
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
        """Says how far the guard is with a decision. Raises nothing: a decision holds also when that cannot be said."""
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
            published = self._link.publish(self._topics.feedback, feedback.to_json(), must=True)
        except Exception:
            log.exception("haltline: decision %s could not be acknowledged as %s", decision_id, stage)
            published = False
        if not published:
            self.dropped += 1


def now_ms() -> int:
    """The wall clock: epoch milliseconds."""
    return time.time_ns() // 1_000_000
