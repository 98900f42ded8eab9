"""The sessions that an intake asks for: one guard each, as many at a time as it has room for."""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.framework_session import FrameworkSession
from haltline.interventions.agent.settings import GuardSettings
from haltline.streams.intake.requests import Bad, text_of

_IDLE_S: Final = 3600.0
_FIELDS: Final = ("agent_id", "parent_session_id", "root_session_id", "mission_id")


class Sessions:
    """By their ids. For the event loop alone."""

    def __init__(self, settings: GuardSettings, max_sessions: int) -> None:
        self._settings = settings
        self._max = max_sessions
        self._sessions: OrderedDict[str, FrameworkSession] = OrderedDict()
        self._used_at: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def known(self, session_id: str) -> FrameworkSession | None:
        """The one that was asked about before, unless it was given up since."""
        return self._sessions.get(session_id)

    def of(self, fields: Mapping[str, Any]) -> FrameworkSession:
        """The session of a request, by `session_id`; a new one is of `agent_id` and below `parent_session_id`.

        Raises Bad for values that cannot be used, and when there is no room.
        """
        session_id = text_of(fields, "session_id")
        session = self._sessions.get(session_id)
        if session is None:
            above = {name: fields[name] for name in _FIELDS if fields.get(name) is not None}
            try:
                settings = self._settings.changed(session_id=session_id, **above)
                # Where an answer has a place for other arguments, `propose` is asked, which returns them.
                session = FrameworkSession(Guard(settings), changes_arguments=False)
            except ValueError as error:
                raise Bad(400, str(error)) from None
            self._make_room()
            self._sessions[session_id] = session
        self._sessions.move_to_end(session_id)
        self._used_at[session_id] = time.monotonic()
        return session

    async def close(self) -> None:
        """Ends all of them."""
        sessions, self._sessions = list(self._sessions.values()), OrderedDict()
        await asyncio.gather(*(session.end_async() for session in sessions))

    def _make_room(self) -> None:
        """Gives up the session that was asked about longest ago.

        What its author's rules count would be lost with it (kills are not: they are on a topic), so where there are
        rules it must have been idle for long.
        """
        if len(self._sessions) < self._max:
            return
        oldest = next(iter(self._sessions))
        if self._settings.rules is not None and time.monotonic() - self._used_at[oldest] < _IDLE_S:
            raise Bad(503, f"session_id: expected one of {self._max} sessions that are at work, got one more")
        del self._used_at[oldest]
        threading.Thread(target=self._sessions.pop(oldest).end, daemon=True).start()
