"""The sessions that an intake is asked about: begun, found again, given up, ended."""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.framework_session import FrameworkSession
from haltline.interventions.agent.settings import GuardOptions, GuardSettings
from haltline.schemas.events import Task
from haltline.streams.intake.problems import Bad, bad_values
from haltline.streams.intake.requests import text_of

MakeGuard: TypeAlias = Callable[[GuardSettings], Guard]

_IDLE_S: Final = 3600.0
_FIELDS: Final = ("agent_id", "parent_session_id", "root_session_id", "mission_id")
_MODES: Final = ("async", "blocking", "local")
_MAX_ANCESTORS: Final = 64


class Sessions:
    """All of one intake, the one that was asked about longest ago first. For its event loop alone."""

    def __init__(self, settings: GuardSettings, max_sessions: int, make_guard: MakeGuard = Guard) -> None:
        self._settings = settings
        self._max_sessions = max_sessions
        self._make_guard = make_guard
        self._sessions: OrderedDict[str, FrameworkSession] = OrderedDict()
        self._used_at: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def known(self, session_id: str) -> FrameworkSession | None:
        """The session, if it was asked about."""
        return self._sessions.get(session_id)

    def of(self, fields: Mapping[str, Any]) -> FrameworkSession:
        """The session of a request; a new one where it was not asked about. Raises Bad."""
        session_id = text_of(fields, "session_id")
        session = self._sessions.get(session_id)
        if session is None:
            try:
                # Where an answer has a place for other arguments, `propose` is asked, which returns them.
                session = FrameworkSession(self._guard(session_id, fields), changes_arguments=False)
            except ValueError as error:
                raise bad_values(error) from None
            self._make_room()
            self._sessions[session_id] = session
        self._sessions.move_to_end(session_id)
        self._used_at[session_id] = time.monotonic()
        return session

    async def end(self, session_id: str) -> bool:
        """Ends the session. False: it was not asked about, or has ended."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return False
        del self._used_at[session_id]
        await session.end_async()
        return True

    async def close(self) -> None:
        """Ends them all."""
        sessions, self._sessions = list(self._sessions.values()), OrderedDict()
        await asyncio.gather(*(session.end_async() for session in sessions))

    def _guard(self, session_id: str, fields: Mapping[str, Any]) -> Guard:
        given: dict[str, Any] = {name: fields[name] for name in _FIELDS if fields.get(name) is not None}
        if fields.get("ancestors"):
            given["ancestors"] = _ancestors(fields["ancestors"])
        if fields.get("task") is not None:
            given["task"] = _task(fields["task"])
        mode = mode_of(fields, "session_mode", self._settings, _MODES)
        if mode is not None:
            given["mode"] = mode
        given["session_id"] = session_id
        parent = given.get("parent_session_id")
        above = self._sessions.get(parent) if isinstance(parent, str) else None  # what is no text the settings refuse
        if above is not None:
            given["ancestors"] = (*above.guard.settings.lineage, *given.get("ancestors", ()))
        options = cast("GuardOptions", given)  # the settings check the values
        return self._make_guard(self._settings.changed(**options)) if above is None else above.guard.subagent(**options)

    def _make_room(self) -> None:
        """Gives up the session that was asked about longest ago.

        What its author's rules count would be lost with it (kills are not: they are on a topic), so where there are
        rules it must have been idle for long.
        """
        if len(self._sessions) < self._max_sessions:
            return
        oldest = next(iter(self._sessions))
        if self._settings.rules is not None and time.monotonic() - self._used_at[oldest] < _IDLE_S:
            raise Bad(503, f"session_id: expected one of {self._max_sessions} sessions that are at work, got one more")
        del self._used_at[oldest]
        threading.Thread(target=self._sessions.pop(oldest).end, daemon=True).start()


def mode_of(
    fields: Mapping[str, Any], name: str, settings: GuardSettings, modes: tuple[str, ...] = _MODES
) -> str | None:
    """The mode of a session or a call; None: that of the intake, also where that decides in its own process.

    Raises Bad for a mode that does not exist, and for `local` where the intake does not decide itself.
    """
    mode = fields.get(name)
    if mode is None:
        return None
    if mode not in modes:
        raise Bad(400, f"{name}: expected one of {', '.join(modes)}, got {mode!r:.80}")
    if settings.mode == "local":
        return None
    if mode == "local":
        raise Bad(400, f"{name}: expected async or blocking, got 'local': this intake decides by workers, not itself")
    return str(mode)


def _task(value: Any) -> Task:
    if not isinstance(value, dict):
        raise Bad(400, f"task: expected an object, got {type(value).__name__}")
    try:
        return Task(**{name: value[name] for name in Task.model_fields if name in value})
    except ValueError as error:
        raise bad_values(error, "task.") from None


def _ancestors(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > _MAX_ANCESTORS or not all(isinstance(one, str) for one in value):
        raise Bad(400, f"ancestors: expected at most {_MAX_ANCESTORS} texts, got {value!r:.80}")
    return tuple(value)
