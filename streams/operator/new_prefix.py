"""A new prefix for a fleet that needs more partitions: `control` and `policies` are copied, so kills stay in force.

`haltline topics new` runs while there are no workers, so that nothing is killed behind it. Partitions follow from the
keys, so entries are copied by key. A worker that begins with no states would replace the entry of a killed session by
what it finds next. So the state of each session and scope that has an entry is written to the new changelog, without
an owner: such a record counts, and the worker that claims the partition writes it again.
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from haltline.interventions.decide.cross_session import ScopeControl
from haltline.interventions.state.session_control import Freeze, Kill, Probation
from haltline.schemas import wire
from haltline.schemas.control import ControlRecord, ControlState
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.partitioner import partition_of
from haltline.schemas.seals import HEADER as SEAL_HEADER
from haltline.schemas.seals import Headers, Sealer
from haltline.schemas.topics import SETS_KEY, Topics
from haltline.streams.engine.core import SessionState
from haltline.streams.engine.cross_session import ScopeState
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.failure import KnownFailure
from haltline.streams.kafka.log_reader import bounds, open_consumer, partitions_of, read_partition
from haltline.streams.kafka.log_record import LogRecord
from haltline.streams.runtime.changelog import OWNER_HEADER
from haltline.streams.runtime.confirmed_producer import ConfirmedProducer
from haltline.streams.runtime.control_entries import CHANGELOG_HEADER
from haltline.streams.sessions import state_codec
from haltline.streams.sessions.state_cache import SCOPE_KEY, State, subject_of
from haltline.streams.system import REAL

COPIED: Final = "haltline-copied-from"
"""The header of a copy: the topic of the original."""
_NOT_COPIED: Final = frozenset({OWNER_HEADER, CHANGELOG_HEADER, SEAL_HEADER, COPIED})
"""Headers that are valid in their own topic only."""
_CONFIRM_WITHIN_S: Final = 30.0

_log = logging.getLogger(__name__)


class NotEmpty(KnownFailure):
    """The topics of the new prefix have records that are no copies."""


class NewPrefix:
    """Copies from the topics of one prefix to those of another, which exist. Can be repeated after a failure."""

    def __init__(
        self,
        bootstrap: str,
        source: Topics,
        target: Topics,
        changelog: str,
        *,
        client: Mapping[str, ClientSetting],
        sealing_key: Path | None = None,
    ) -> None:
        """`changelog` is that of the new workers. Raises ValueError and OSError for the key."""
        self._bootstrap, self._client = bootstrap, client
        self._source, self._target, self._changelog = source, target, changelog
        self._sealer = None if sealing_key is None else Sealer(sealing_key)

    def copy(self) -> tuple[int, int]:
        """Return the numbers of entries of `control` and of policies.

        Raises:
            NotEmpty: the new topics have other records; nothing is copied.
            KnownFailure: entries are sealed, and there is no key.
            NoSuchTopic, Unreachable, DeliveryFailed: the cluster does not do what it has to.

        """
        source, target = self._source, self._target
        self._require_no_records()
        copied = self._copied(target.control, source.control), self._copied(target.policies, source.policies)
        entries, policies = self._in_force(source.control), self._in_force(source.policies)
        if self._sealer is None and any(name == SEAL_HEADER for one in entries.values() for name, _ in one.headers):
            raise KnownFailure(f"{source.control}: expected --sealing-key, the workers' key, for its sealed entries")
        stale = copied[0] - entries.keys(), copied[1] - policies.keys()  # of an earlier run, and released since
        producer = ConfirmedProducer(self._bootstrap, delivery_timeout_s=_CONFIRM_WITHIN_S, settings=dict(self._client))
        self._put_states(producer, entries, stale[0])
        self._put(producer, target.policies, policies, stale[1])
        self._put(producer, target.control, entries, stale[0])
        producer.close(_CONFIRM_WITHIN_S)
        return len(entries), len(policies)

    def _require_no_records(self) -> None:
        """Raise NotEmpty if there are records of another kind than what is copied."""
        with closing(open_consumer(self._bootstrap, client=self._client)) as consumer:
            for topic in {*self._target.all} - {self._target.control, self._target.policies}:
                ends = [bounds(consumer, place)[1] for place in partitions_of(consumer, topic)]
                if any(ends):
                    raise NotEmpty(f"topic {topic}: expected no records, got {sum(ends)}: choose another --prefix")

    def _copied(self, topic: str, of: str) -> set[bytes]:
        """Return the keys of the copies that are in force. Raises NotEmpty if there is anything but copies."""
        last: dict[bytes | None, bytes | None] = {}
        for record in self._records(topic):
            if (COPIED, of.encode()) not in record.headers:
                raise NotEmpty(
                    f"topic {topic}: expected copies of {of} only, got {record.key!r} at offset {record.offset} of "
                    f"partition {record.partition}: choose another --prefix"
                )
            last[record.key] = record.value
        return {key for key, value in last.items() if key is not None and value is not None}

    def _records(self, topic: str) -> Iterator[LogRecord]:
        with closing(open_consumer(self._bootstrap, client=self._client)) as consumer:
            for place in partitions_of(consumer, topic):
                yield from read_partition(consumer, place, *bounds(consumer, place))

    def _in_force(self, topic: str) -> dict[bytes, LogRecord]:
        last = {record.key: record for record in self._records(topic)}
        return {
            key: record
            for key, record in last.items()
            if key is not None and key != SETS_KEY and record.value is not None
        }

    def _put(
        self, producer: ConfirmedProducer, topic: str, entries: Mapping[bytes, LogRecord], stale: Collection[bytes]
    ) -> None:
        for key, record in entries.items():
            kept = [header for header in record.headers if header[0] not in _NOT_COPIED]
            producer.send(topic, key=key, value=record.value, headers=[*kept, *self._own(topic, key, record.value)])
        for key in stale:
            producer.send(topic, key=key, value=None, headers=self._own(topic, key, None))

    def _own(self, topic: str, key: bytes, value: bytes | None) -> Headers:
        """Return the headers that are valid in the new topic only."""
        copied = (COPIED, f"{self._source.prefix}{topic.removeprefix(self._target.prefix)}".encode())
        if self._sealer is None or topic != self._target.control:
            return [copied]
        return [copied, self._sealer.seal(topic, key, value, REAL.time_ms())]

    def _put_states(
        self, producer: ConfirmedProducer, entries: Mapping[bytes, LogRecord], stale: Collection[bytes]
    ) -> None:
        count = producer.partitions(self._changelog)
        for key in {*entries, *stale}:
            name = state_key(key)
            try:
                state = state_of(wire.decode(ControlRecord, entries[key].value)) if key in entries else None
            except wire.InvalidRecord as bad:
                _log.warning("%s: %r is copied, without a state: %s", self._source.control, key, bad)
                continue
            value = None if state is None else state_codec.encode(state)
            producer.send(self._changelog, key=name, value=value, partition=partition_of(subject_of(name), count))


def state_key(entry: bytes) -> bytes:
    """Return the key of the state of an entry's session or scope."""
    scope, _, name = entry.partition(b":")
    return name if scope == ScopeKind.SESSION.value.encode() else SCOPE_KEY + entry


def state_of(entry: ControlRecord) -> State:
    """Return a state in which only this entry is in force."""
    if entry.scope is not ScopeKind.SESSION:
        scope = ScopeState(entry.scope.value, entry.id)
        scope.standing.stands = ScopeControl(
            state=entry.state.value,
            since_ms=entry.since,
            code=entry.code,
            reason=entry.reason,
            by=entry.by,
            decision_id=entry.decision_id,
            spared=entry.spared or [],
        )
        return scope
    state = SessionState(entry.id, entry.agent_id)
    control = state.control
    if entry.state is ControlState.KILLED:
        control.killed = Kill(
            entry.decision_id,
            entry.code,
            entry.reason,
            entry.by,
            entry.since,
            stopped_at_ms=entry.stopped_at,
            time_to_stop_ms=entry.time_to_stop_ms,
            issued=entry.issued or 1,
            sent_ms=entry.decided_at,
            escalated_at_ms=entry.escalated_at,
            locked_until_ms=entry.locked_until,
            unheard=entry.unheard or False,
        )
    elif entry.state is ControlState.PROBATION:
        control.probation = Probation(entry.actions_left or 0, entry.by, entry.reason, entry.since, entry.decision_id)
    else:
        control.held = Freeze(
            entry.state.value, entry.by, entry.reason, entry.since, entry.decision_id, code=entry.code
        )
    return state
