"""A stream of what the feeder reads, for open pages: notes in a ring buffer, which each listener reads by `/events`."""

import asyncio
import secrets
import threading
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse

from haltline.console.context import Viewer
from haltline.console.http.routing import StrictRoute
from haltline.schemas.decisions import Level
from haltline.streams.audit.columns import Row

_KEPT: Final = 5_000
_MAX_NAMES: Final = 100
"""The most sessions in one note of activity."""
_LOOK_EVERY_S: Final = 0.25
"""Notes within this interval are sent together: pages need no faster updates."""
_BEAT_EVERY_S: Final = 15.0
"""A heartbeat, so that no proxy closes the connection as idle."""
_NAMES: Final = {
    "interventions": "decision",
    "detections": "detection",
    "control": "control",
    "incidents": "incident",
    "feedback": "feedback",
    "commands": "command",
    "policies": "policy",
    "dead-letter": "dead_letter",
}
_COLUMNS: Final = (
    "kind", "session_id", "agent_id", "event_time", "level", "detector", "severity", "code", "decision_id", "scope",
    "scope_id", "by", "summary",
)  # fmt: skip


@dataclass(frozen=True)
class Note:
    """One message."""

    number: int
    name: str
    data: Mapping[str, Any]


class Live:
    """The notes of one console, written by the feeder's thread and read by the server's."""

    def __init__(self, prefix: str, kept: int = _KEPT) -> None:
        self._prefix = prefix
        self._run = secrets.token_hex(4)
        """Part of note ids: numbers begin again with each console, so ids of an earlier one are invalid."""
        self._lock = threading.Lock()
        self._notes: deque[Note] = deque(maxlen=kept)
        self._last = 0
        self.closed = False

    def add(self, rows: Sequence[Row]) -> None:
        """Add notes for rows. Plain verdicts give none; actions give only their number and sessions."""
        events, sessions = 0, dict[str, None]()
        news: list[tuple[str, dict[str, Any]]] = []
        for row in rows:
            topic = row["topic"].removeprefix(self._prefix)
            if topic == "actions":
                events += 1
                sessions[row.get("session_id") or ""] = None
            elif topic in _NAMES and not _is_plain(topic, row):
                news.append((_NAMES[topic], {name: row[name] for name in _COLUMNS if row.get(name) is not None}))
        if events:
            names = [name for name in sessions if name]
            news.append(("activity", {"events": events, "sessions": names[:_MAX_NAMES], "of": len(names)}))
        with self._lock:
            for name, data in news:
                self._last += 1
                self._notes.append(Note(self._last, name, data))

    def close(self) -> None:
        """End every stream, so that the server can stop."""
        self.closed = True

    async def follow(self, last_seen: str | None = None) -> AsyncIterator[bytes]:
        """Server-sent events from now on, or after the last id that a browser received.

        If the id is no longer in the buffer, or is of another run, `missed` is sent: the page has to reload everything.
        """
        after, missed = self._after(last_seen)
        yield b"retry: 2000\n\n" + self._frame("missed" if missed else "hello", {}, after)
        quiet_s = 0.0
        while not self.closed:
            notes, missed = self._since(after)
            if missed:
                after = self._last
                yield self._frame("missed", {}, after)
            elif notes:
                after = notes[-1].number
                yield b"".join(self._frame(note.name, note.data, note.number) for note in notes)
                quiet_s = 0.0
            elif quiet_s >= _BEAT_EVERY_S:
                yield b": still here\n\n"
                quiet_s = 0.0
            await asyncio.sleep(_LOOK_EVERY_S)
            quiet_s += _LOOK_EVERY_S

    def _after(self, last_seen: str | None) -> tuple[int, bool]:
        run, _, number = (last_seen or "").partition("-")
        if not last_seen:
            return self._last, False
        if run != self._run or not number.isdecimal() or int(number) > self._last:
            return self._last, True
        return int(number), False

    def _since(self, after: int) -> tuple[list[Note], bool]:
        with self._lock:
            if self._last == after:
                return [], False
            first = self._notes[0].number
            return [note for note in self._notes if note.number > after], first > after + 1

    def _frame(self, name: str, data: Mapping[str, Any], number: int) -> bytes:
        # JSON contains no raw line breaks, so any text of an agent stays within its line.
        return f"id: {self._run}-{number}\nevent: {name}\ndata: ".encode() + orjson.dumps(data) + b"\n\n"


def _is_plain(topic: str, row: Row) -> bool:
    return topic == "interventions" and not row.get("detector") and row.get("level") != Level.KILL.value


router = APIRouter(prefix="/api/v1", tags=["events"], route_class=StrictRoute)


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Events named decision, detection, control, feedback, command, policy, dead_letter, each "
            "with the columns of its record; activity, with how many actions there were, and of which sessions; "
            "missed: more happened than can be sent, read everything again.",
            "content": {
                "text/event-stream": {
                    "example": 'id: 1f3a-42\nevent: decision\ndata: {"session_id":"night-7","level":"KILL"}\n\n'
                }
            },
        }
    },
)
def events(request: Request, _: Viewer, last_event_id: Annotated[str | None, Header()] = None) -> StreamingResponse:
    """Streams decisions, findings, control and commands until the client disconnects.

    A client that reconnects with `Last-Event-ID` receives all missed events that are still buffered.
    """
    live: Live = request.app.state.live
    return StreamingResponse(
        live.follow(last_event_id), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )
