"""The sessions that a kill would stop: recently active ones that have not ended, read from `actions`.

It counts published records. A session that was silent for longer than the window is not seen, nor one that publishes
nothing; one that ended without a record is counted. For a session, its descendants count too, as far as their own
events name their ancestors.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from haltline.schemas import wire
from haltline.schemas.control import Feedback, Stage
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.topics import Topics
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.operator.known_sessions import event_of

_MAX_NAMES = 1000
"""The most tools, and the most targets, kept for one session."""
_POLL_S = 0.1


@dataclass
class Seen:
    """One session, as known from its events."""

    session_id: str
    agent_id: str = "unknown"
    mission_id: str | None = None
    above: set[str] = field(default_factory=set)
    """Its parent and root sessions, from its own events."""
    last_ms: int = 0
    ended: bool = False
    tools: set[str] = field(default_factory=set)
    targets: set[str] = field(default_factory=set)

    def note(self, event: ActionEvent) -> None:
        """Apply its next event."""
        if event.agent_id != "unknown":
            self.agent_id = event.agent_id
        self.mission_id = event.mission_id or self.mission_id
        self.above |= {s for s in (event.parent_session_id, event.root_session_id) if s and s != self.session_id}
        self.last_ms = max(self.last_ms, event.time)
        self.ended = event.kind is Kind.SESSION_ENDED
        if event.action and len(self.tools) < _MAX_NAMES:
            self.tools.add(event.action)
        if len(self.targets) < _MAX_NAMES:
            self.targets.update(event.targets)


@dataclass(frozen=True, kw_only=True)
class BlastRadius:
    """The sessions that a kill of a scope reaches."""

    scope: ScopeKind
    scope_id: str
    sessions: tuple[Seen, ...]
    """The most recently active first."""

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents of the sessions."""
        return tuple(sorted({seen.agent_id for seen in self.sessions}))


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """The acknowledgements of a kill by the agents' side."""

    by_session: Mapping[str, int | None]
    """Stopped sessions, with the delay after the decision in milliseconds."""
    silent: tuple[str, ...]
    """Sessions that should stop, and have not acknowledged it."""


def blast_radius_of(scope: ScopeKind, scope_id: str, events: Iterable[ActionEvent]) -> BlastRadius:
    """Return the sessions that a kill would stop, by these events."""
    sessions: dict[str, Seen] = {}
    for event in events:
        seen = sessions.get(event.session_id)
        if seen is None:
            seen = sessions[event.session_id] = Seen(event.session_id)
        seen.note(event)
    reached = _REACHES[scope]
    below = _family(sessions, scope_id) if scope is ScopeKind.SESSION else set()
    found = [s for s in sessions.values() if not s.ended and (s.session_id in below or reached(s, scope_id))]
    return BlastRadius(scope=scope, scope_id=scope_id, sessions=tuple(sorted(found, key=lambda s: -s.last_ms)))


def preview(
    bootstrap: str,
    topics: Topics,
    scope: ScopeKind,
    scope_id: str,
    *,
    lookback: timedelta,
    client: Mapping[str, ClientSetting] | None = None,
) -> BlastRadius:
    """Return the sessions that a kill would stop now, from recent `actions`. Raises Unreachable and NoSuchTopic."""
    since_ms = int((time.time() - lookback.total_seconds()) * 1000)
    with LogReader(bootstrap, [topics.actions], client=client, since_ms=since_ms) as reader:
        return blast_radius_of(scope, scope_id, _events(reader, since_ms))


def wait_for_stops(
    bootstrap: str,
    topics: Topics,
    decision_id: str,
    expected: Iterable[str],
    *,
    since_ms: int,
    within_s: float,
    client: Mapping[str, ClientSetting] | None = None,
) -> Stopped:
    """Return the sessions that acknowledge a stop by this decision in time; ends early when all expected ones have."""
    waiting, stopped = set(expected), dict[str, int | None]()
    deadline = time.monotonic() + within_s
    with LogReader(bootstrap, [topics.feedback], client=client, since_ms=since_ms) as reader:
        while time.monotonic() < deadline and (waiting or not stopped):
            message = reader.poll(_POLL_S)
            value = None if message is None else message.value()
            if value is None or decision_id.encode() not in value:
                continue
            try:
                feedback = wire.decode(Feedback, value)
            except wire.InvalidRecord:
                continue
            if feedback.decision_id == decision_id and feedback.stage is Stage.STOPPED:
                waiting.discard(feedback.session_id)
                took_ms = None if feedback.decided_at is None else max(0, feedback.time - feedback.decided_at)
                stopped.setdefault(feedback.session_id, took_ms)
    return Stopped(by_session=stopped, silent=tuple(sorted(waiting)))


def _events(reader: LogReader, since_ms: int) -> Iterable[ActionEvent]:
    for message in reader.to_end():
        event = event_of(message)
        if event is not None and event.time >= since_ms:  # the embedded broker returns all
            yield event


def _family(sessions: Mapping[str, Seen], root: str) -> set[str]:
    """Return a session and its descendants."""
    family = {root}
    while True:
        more = {s.session_id for s in sessions.values() if s.session_id not in family and s.above & family}
        if not more:
            return family
        family |= more


_REACHES: Mapping[ScopeKind, Callable[[Seen, str], bool]] = {
    ScopeKind.SESSION: lambda seen, scope_id: seen.session_id == scope_id,
    ScopeKind.AGENT: lambda seen, scope_id: seen.agent_id == scope_id,
    ScopeKind.MISSION: lambda seen, scope_id: seen.mission_id == scope_id,
    ScopeKind.TOOL: lambda seen, scope_id: scope_id in seen.tools,
    ScopeKind.TARGET: lambda seen, scope_id: scope_id in seen.targets,
    ScopeKind.FLEET: lambda seen, scope_id: True,  # noqa: ARG005 - the arguments of the others
}
