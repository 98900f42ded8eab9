"""The known sessions, agents and missions: looked up in `control`, then in growing windows of `actions`.

A running session has published within the last seconds or minutes, so its full id is found fast. A prefix of an id must
be unique among those of the last day, or else among all that the topics keep.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Final

from confluent_kafka import Message

from haltline.schemas import wire
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.events import ActionEvent
from haltline.schemas.topics import Topics
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import LogReader, Unreachable
from haltline.streams.kafka.log_record import headers_of
from haltline.streams.operator.ids import Ambiguous, NotFound, resolve

CHECKED: Final = frozenset({ScopeKind.SESSION, ScopeKind.AGENT, ScopeKind.MISSION})
"""Scopes whose ids have events. A tool or a target is a name, and may be stopped in advance."""

HINT: Final = "no events of it were found; use --unknown (over HTTP `unknown`) to stop it before it starts"
"""The hint in an error for an operator who insists."""

_RECENT_MS: Final = (30 * 1000, 15 * 60 * 1000)
"""The first windows: a lookup must not wait until minutes of a busy fleet are read."""
_DAY_MS: Final = 24 * 60 * 60 * 1000

_IdOf = Callable[[ActionEvent], str | None]
_OF_EVENT: Mapping[ScopeKind, _IdOf] = {
    ScopeKind.AGENT: lambda event: event.agent_id,
    ScopeKind.MISSION: lambda event: event.mission_id,
}


@dataclass(frozen=True, kw_only=True)
class KnownSessions:
    """The ids with events on one cluster. Every method raises Unreachable and NoSuchTopic like `LogReader`."""

    bootstrap: str
    topics: Topics
    client: Mapping[str, ClientSetting] | None = None
    within_s: float

    def find(self, scope: ScopeKind, given: str, *, hint: str = HINT) -> str:
        """Return the full id of a session, an agent or a mission; ids of other scopes are returned unchanged.

        Raises:
            NotFound: no events of it were found, or not in what could be read in time.
            Ambiguous: several have the prefix.

        """
        if scope not in CHECKED or not given.strip():
            return given
        deadline = time.monotonic() + self.within_s
        known = self._in_control(scope)
        if given in known:
            return given
        now_ms = time.time_ns() // 1_000_000
        try:
            if any(given in self._ids(scope, given, now_ms - recent_ms, deadline) for recent_ms in _RECENT_MS):
                return given
            with suppress(NotFound, Ambiguous):  # it may be the full id of an older one
                return resolve(scope.value, given, chain(known, self._ids(scope, given, now_ms - _DAY_MS, deadline)))
            return resolve(scope.value, given, chain(known, self._ids(scope, given, None, deadline)), hint=hint)
        except Unreachable:
            if time.monotonic() < deadline:
                raise
            raise NotFound(
                f"{scope} not found: {given}; there is more to read than can be read in {self.within_s:g} s: give the "
                "whole id and --unknown (over HTTP `unknown`), or a longer --timeout"
            ) from None

    def _in_control(self, scope: ScopeKind) -> set[str]:
        """Return ids of this scope with a control that is or recently was in force."""
        begins = f"{scope}:"
        with LogReader(self.bootstrap, [self.topics.control], client=self.client) as reader:
            keys = ((message.key() or b"").decode(errors="replace") for message in reader.to_end())
            return {key.removeprefix(begins) for key in keys if key.startswith(begins)}

    def _ids(self, scope: ScopeKind, given: str, since_ms: int | None, deadline: float) -> Iterator[str]:
        """Yield candidate ids as they are read: the caller stops reading once it has the right one."""
        fields = _OF_EVENT.get(scope)
        encoded = given.encode()
        with LogReader(self.bootstrap, [self.topics.actions], client=self.client, since_ms=since_ms) as reader:
            for message in reader.to_end(within_s=max(0.0, deadline - time.monotonic())):
                if fields is None:
                    if (key := message.key() or b"").startswith(encoded):
                        yield key.decode(errors="replace")
                elif (event := _event(message, encoded)) is not None and (named := fields(event)) is not None:
                    yield named


def _event(message: Message, encoded: bytes) -> ActionEvent | None:
    """Return the event if it may contain the id; decoding each would be slow."""
    value = message.value() or b""
    return event_of(message) if encoded in value or b"\\u" in value else None


def event_of(message: Message) -> ActionEvent | None:
    """Return the event of a record; None if it has none."""
    try:
        return wire.decode_event(message.value(), headers_of(message))
    except wire.InvalidRecord:
        return None  # already a dead letter
