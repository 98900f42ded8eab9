"""The sessions of a service: started, found again, evicted, ended."""

import asyncio
import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, Final, Protocol, cast

from haltline.interventions.agent.checkpoints import Checkpoints
from haltline.interventions.agent.frame.session import FrameworkSession
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.service.problems import Bad, bad_values, object_of, text_of
from haltline.interventions.agent.settings import GuardOptions, GuardSettings
from haltline.interventions.agent.transport.transport import Decider
from haltline.interventions.agent.transport.transport_factory import with_policy_read
from haltline.schemas.events import Task


class MakeGuard(Protocol):
    """Makes the guard of a session."""

    def __call__(self, settings: GuardSettings, /, *, checkpoints: Checkpoints | None = None) -> Guard: ...  # noqa: D102


log: Final = logging.getLogger("haltline.agent")

_IDLE_S: Final = 3600.0
_MAX_KEPT: Final = 4096
"""The most counts kept of sessions that are no longer known."""
_FIELDS: Final = ("agent_id", "parent_session_id", "root_session_id", "mission_id")
_MODES: Final = ("async", "blocking", "local")
_MAX_ANCESTORS: Final = 64


class Caller(Protocol):
    """Who makes a request: a key of the intake, or this machine's user."""

    name: str
    is_local: bool
    """Whether it is this machine's user, who may name folders here."""

    def outside(self, *, agents: Iterable[object]) -> str | None:
        """Return which of the agents the caller is not for; None: it is for all of them."""


class _User:
    name = "of this user"
    is_local = True

    def outside(self, *, agents: Iterable[object]) -> None:
        """Return None: every agent of this user may ask."""


THIS_USER: Final[Caller] = _User()
"""Whoever may connect to the socket of this machine's user."""


class Sessions:
    """The sessions of one service, least recently used first. For its event loop only."""

    def __init__(
        self,
        settings: GuardSettings,
        max_sessions: int,
        make_guard: MakeGuard = Guard,
        *,
        holds_mode: bool = False,
        snapshots: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`holds_mode`: no request weakens the mode of the settings. `clock` returns monotonic seconds.

        `snapshots`: the calls run on this machine, so that their files can be looked at.

        Raises ValueError for a policy that cannot be used.
        """
        self._settings = with_policy_read(settings)
        if not snapshots:
            self._settings = self._settings.changed(snapshots=False)
        self._max_sessions = max_sessions
        self._holds_mode = holds_mode
        self._make_guard = make_guard
        self._clock = clock
        self._sessions: OrderedDict[str, FrameworkSession] = OrderedDict()
        self._owners: dict[str, Caller] = {}
        self._held: Counter[Caller] = Counter()
        """The number of sessions of each caller."""
        self._used_at: dict[str, float] = {}
        self._kept: OrderedDict[str, tuple[float, Decider]] = OrderedDict()
        """In mode local: the deciders of sessions that are no longer known, with their expiry times."""

    def __len__(self) -> int:
        return len(self._sessions)

    def known(self, session_id: str, caller: Caller) -> FrameworkSession | None:
        """Return the session, if it is known, and of an agent that the caller is for."""
        session = self._sessions.get(session_id)
        return None if session is None or _is_anothers(session, caller) else session

    def of(
        self, fields: Mapping[str, Any], caller: Caller, *, checkpoints: Checkpoints | None = None
    ) -> FrameworkSession:
        """Return the session of a request; a new one, with these `checkpoints`, if it is not known. Raises Bad."""
        session_id = text_of(fields, "session_id")
        session = self._of_caller(session_id, "session_id", caller)
        if session is None:
            try:
                guard = self._guard(session_id, fields, caller, checkpoints)
            except ValueError as error:
                raise bad_values(error) from None
            self._make_room(caller)
            self._go_on(session_id, guard)
            # If an answer can carry changed arguments, `propose` is called, which returns them.
            session = FrameworkSession(guard, changes_arguments=False)
            self._sessions[session_id] = session
            self._owners[session_id] = caller
            self._held[caller] += 1
        self._sessions.move_to_end(session_id)
        self._used_at[session_id] = self._clock()
        return session

    def mode_of(self, fields: Mapping[str, Any], name: str) -> str | None:
        """Return the mode of a session or a call; None: the service's, also if that decides in its own process.

        `async` is refused if the mode `blocking` is enforced. Raises Bad for an unknown mode, and for `local` if the
        service does not decide itself.
        """
        mode, own = fields.get(name), self._settings.mode
        if mode is None:
            return None
        if mode not in _MODES:
            raise Bad(400, f"{name}: expected one of {', '.join(_MODES)}, got {mode!r:.80}")
        if own == "local":
            return None
        if mode == "local":
            raise Bad(
                400, f"{name}: expected async or blocking, got 'local': this service decides by workers, not itself"
            )
        return None if self._holds_mode and own == "blocking" else str(mode)

    async def end(self, session_id: str, caller: Caller) -> bool:
        """End the session. Returns False if it is not known, or has ended."""
        if self.known(session_id, caller) is None:
            return False
        await self._given_up(session_id).end_async()
        return True

    async def close(self) -> None:
        """End all sessions."""
        sessions, self._sessions = list(self._sessions.values()), OrderedDict()
        await asyncio.gather(*(session.end_async() for session in sessions))

    def _guard(
        self, session_id: str, fields: Mapping[str, Any], caller: Caller, checkpoints: Checkpoints | None
    ) -> Guard:
        given: dict[str, Any] = {name: fields[name] for name in _FIELDS if fields.get(name) is not None}
        if fields.get("ancestors"):
            given["ancestors"] = _ancestors(fields["ancestors"])
        if fields.get("task") is not None:
            given["task"] = _task(fields["task"])
        mode = self.mode_of(fields, "session_mode")
        if mode is not None:
            given["mode"] = mode
        given["session_id"] = session_id
        if fields.get("reports"):
            given |= {"fail_closed_from": None, "ask_from": None}
            given |= {} if self._settings.mode == "local" else {"mode": "async"}
        parent = given.get("parent_session_id")
        # The settings refuse what is not text.
        above = self._of_caller(parent, "parent_session_id", caller) if isinstance(parent, str) else None
        if above is not None:
            given["ancestors"] = (*above.guard.settings.lineage, *given.get("ancestors", ()))
        options = cast("GuardOptions", given)  # the settings check the values
        if above is not None:
            return above.guard.below(**options)
        return self._make_guard(self._settings.changed(**options), checkpoints=checkpoints)

    def _of_caller(self, session_id: str, name: str, caller: Caller) -> FrameworkSession | None:
        """Return the session, if it is known. Raises Bad (403) for one of an agent that the caller is not for."""
        session = self._sessions.get(session_id)
        if session is not None and _is_anothers(session, caller):
            raise Bad(403, f"{name}: expected one of an agent that key {caller.name} is for, got {session_id!r:.80}")
        return session

    def _make_room(self, caller: Caller) -> None:
        """Evict the least recently used session of the caller with most; one with open calls only if all have some.

        The counts of its author's rules are lost, so with such rules a caller's own must have been idle for long.
        Counts of mode local are kept for as long; kills stay known in any case.
        """
        if len(self._sessions) < self._max_sessions:
            return
        held = self._held
        loser = max(held, key=lambda one: (held[one] + (one is caller), one is caller))
        own = (one for one in self._sessions if self._owners[one] is loser)
        oldest = next(own)
        chosen = next((one for one in chain((oldest,), own) if not self._sessions[one].has_open), oldest)
        if self._settings.rules is not None and loser is caller:
            now_s = self._clock()
            chosen = next((one for one in (chosen, oldest) if now_s - self._used_at[one] >= _IDLE_S), "")
            if not chosen:
                raise Bad(
                    503, f"session_id: expected one of {self._max_sessions} sessions that are at work, got one more"
                )
        log.warning("haltline: session %s is dropped: more than %d are open", chosen, self._max_sessions)
        threading.Thread(target=self._given_up(chosen).end, daemon=True).start()

    def _given_up(self, session_id: str) -> FrameworkSession:
        """Remove and return the session; in mode local its counts are kept for the next one with its id."""
        del self._used_at[session_id]
        owner = self._owners.pop(session_id)
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        session = self._sessions.pop(session_id)
        decider = session.guard.decider
        if decider is not None:
            self._kept[session_id] = self._clock() + _IDLE_S, decider
            if len(self._kept) > _MAX_KEPT:
                forgotten, _ = self._kept.popitem(last=False)
                log.warning("haltline: counts of session %s are lost: more than %d have ended", forgotten, _MAX_KEPT)
        return session

    def _go_on(self, session_id: str, guard: Guard) -> None:
        """Restore the counts of a recently ended or evicted session with this id."""
        now_s = self._clock()
        while self._kept and next(iter(self._kept.values()))[0] <= now_s:
            self._kept.popitem(last=False)
        kept = self._kept.pop(session_id, None)
        if kept is not None and guard.decider is not None:
            guard.decider.go_on(kept[1])


def _is_anothers(session: FrameworkSession, caller: Caller) -> bool:
    return caller.outside(agents=(session.guard.settings.agent_id,)) is not None


def _task(value: Any) -> Task:
    fields = object_of(value, "task")
    try:
        return Task(**{name: fields[name] for name in Task.model_fields if name in fields})
    except ValueError as error:
        raise bad_values(error, "task.") from None


def _ancestors(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > _MAX_ANCESTORS or not all(isinstance(one, str) for one in value):
        raise Bad(400, f"ancestors: expected at most {_MAX_ANCESTORS} texts, got {value!r:.80}")
    return tuple(value)
