"""What outlives the local service: the stops of sessions, and the counts of those that are decided on here.

In a folder of the user's home that belongs to the user alone. Counts expire with the policy's `session_ttl_h`; a stop
stays until the session is released, for the newest MAX_STOPS. A stop is written twice, the second time beside the
settings in `~/.config`: where one of the two was removed, no release was made, and the stop stays.
"""

import contextlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from haltline.interventions.agent.integrations.claude_code.stops import Earlier, Stop
from haltline.interventions.agent.integrations.hooks.ancestors import Started
from haltline.interventions.agent.stored_sessions import GUARD, ORDER, StoredSessions, state_folder

MAX_STOPS: Final = 10_000
MAX_STATES: Final = 1_000
_STOP, _STATE, _NOTIFIED, _AGENT, _RELEASED = ".stop", ".state", ".notified", ".agent", ".released"
_REMOVED: Final = "The record of this stop had been removed, which does not release the session."


class Stored(StoredSessions):
    """The files of sessions in one folder. What cannot be written is known to this process only."""

    def __init__(self, folder: Path, kept: Path | None = None) -> None:
        """`kept`: the folder of the second records of stops."""
        super().__init__(folder)
        self._records = [self, *([] if kept is None else [StoredSessions(kept)])]
        self._written: dict[str, Stop | None] = {}

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> Self:
        """Return those of the user. The second records are under HOME whatever else the environment says."""
        home = environ.get("HOME", "")
        return cls(state_folder(environ), Path(home, ".config/haltline/stops") if home.startswith("/") else None)

    def earlier(self, session_id: str) -> Earlier:
        """Return what earlier processes have stored of a session."""
        return Earlier(self.read(session_id, _STATE), self.stopped(session_id))

    def stopped(self, session_id: str) -> Stop | None:
        """Return the stop of a session, as last known: by one of its records, if another was removed."""
        stops = [_stop_in(place.read(session_id, _STOP)) for place in self._records]
        stop = next(filter(None, stops), None)
        if stop is None or stops[0] is not None or _REMOVED in stop.text:
            return stop
        return stop._replace(text=f"{stop.text} {_REMOVED}")

    def stop(self, session_id: str, stopped: Stop | None) -> None:
        """Store the stop of a session; None: it may go on."""
        if session_id not in self._written:
            self._written[session_id] = self.stopped(session_id)
        if stopped is None:
            if self._written[session_id] is not None:
                self._remove_stop(session_id)
        elif stopped != self._written[session_id] or not self._is_recorded(session_id):
            for place in self._records:
                place.write(session_id, _STOP, json.dumps({"session_id": session_id, **stopped._asdict()}).encode())
        self._written[session_id] = stopped

    def stops(self) -> list[tuple[str, float, Stop]]:
        """Return the stopped sessions, the newest first: their ids, when their stops were stored, and the stops.

        The id is empty of a stop that an earlier release has stored.
        """
        found: dict[str, tuple[str, float, Stop]] = {}
        for place in self._records:
            for file, record in place.read_all(_STOP):
                if file.stem not in found and (stop := _stop_in(record)) is not None:
                    with contextlib.suppress(OSError):  # it was released meanwhile
                        found[file.stem] = str(json.loads(record).get("session_id", "")), file.stat().st_mtime, stop
        return sorted(found.values(), key=lambda one: one[1], reverse=True)

    def _is_recorded(self, session_id: str) -> bool:
        return all(place.file(session_id, _STOP).exists() for place in self._records)

    def _remove_stop(self, session_id: str) -> bool:
        removed = [place.remove(session_id, _STOP) for place in self._records]
        return any(removed)

    def keep(self, session_id: str, state: bytes | None) -> None:
        """Store the counts of a session."""
        if state is not None:
            self.write(session_id, _STATE, state)

    def note_agent(self, session_id: str, agent: Started) -> None:
        """Store the process that is the agent of a session."""
        self.write(session_id, _AGENT, json.dumps(agent).encode())

    def agents(self) -> set[Started]:
        """Return the processes that are known as agents."""
        found = set()
        for file in self._folder.glob(f"*{_AGENT}"):
            with contextlib.suppress(OSError, ValueError, TypeError):
                pid, start = json.loads(file.read_bytes())
                found.add((int(pid), str(start)))
        return found

    def release(self, session_id: str) -> bool:
        """Release a session, in every service that has it. Returns whether it was stopped."""
        was_stopped = self.forget(session_id)
        self.write(session_id, _RELEASED, b"")
        return was_stopped

    def released_ns(self, session_id: str) -> int:
        """Return when the session was last released; 0: never."""
        try:
            return self.file(session_id, _RELEASED).stat().st_mtime_ns
        except OSError:
            return 0

    def forget(self, session_id: str) -> bool:
        """Forget the stop of a session, and its counts. Returns whether it was stopped."""
        self._written.pop(session_id, None)
        was_stopped = [self._remove_stop(session_id), self.remove(session_id, GUARD)]
        self.remove(session_id, _STATE)
        return any(was_stopped)

    def is_first_notice(self, session_id: str) -> bool:
        """Return whether the user has not been notified before that no verdicts are available, as far as is known."""
        with contextlib.suppress(OSError):
            self.prepare()
            try:
                os.close(os.open(self.file(session_id, _NOTIFIED), os.O_CREAT | os.O_EXCL, 0o600))
            except FileExistsError:
                return False
        return True

    def prune(self, ttl_s: float) -> None:
        """Remove the counts that have expired, and what exceeds the limits."""
        for kinds, most, oldest_s in (
            (_STATE, MAX_STATES, ttl_s),
            (_NOTIFIED, MAX_STATES, ttl_s),
            (_AGENT, MAX_STATES, ttl_s),
            (_RELEASED, MAX_STATES, ttl_s),
            (_STOP, MAX_STOPS, None),
            (GUARD, MAX_STOPS, None),
            (ORDER, MAX_STOPS, None),
        ):
            with contextlib.suppress(OSError):
                found = [(file.stat().st_mtime, file) for file in self._folder.glob(f"*{kinds}")]
                found.sort(reverse=True)
                since_s = 0.0 if oldest_s is None else time.time() - oldest_s
                for at, (changed_s, file) in enumerate(found):
                    if at >= most or changed_s < since_s:
                        file.unlink(missing_ok=True)


def _stop_in(record: bytes | None) -> Stop | None:
    try:
        known = json.loads(record or b"")
        flags = {name: bool(known[name]) for name in ("is_kill", "may_report", "is_local")}
        return Stop(str(known["text"]), **flags)
    except (ValueError, KeyError, TypeError):
        return None
