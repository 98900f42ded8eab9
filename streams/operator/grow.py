"""More partitions: the next set of topics, with the states of the present one.

`haltline topics grow` works while guards publish and no worker runs. In this order, so that it can be repeated after a
crash at any point:

1. create the topics of the next set, with the settings of the present ones;
2. copy the states that count, and the last entry of each key of `control` and `policies`;
3. commit, for the bridge, the offsets from which the workers would have gone on;
4. name the next set in `control`: first in its own, then in the present one. From here on all that starts uses it.

States keep the offsets in the present topics that they include, so that bridged records which they include are skipped,
also after workers that did not stop cleanly.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented there; its stubs miss it
    AdminClient,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
)

from haltline.schemas.partitioner import partition_of
from haltline.schemas.seals import HEADER as SEAL_HEADER
from haltline.schemas.seals import Sealer
from haltline.schemas.topics import SETS_KEY, Topics
from haltline.streams.kafka.broker_retry import answered
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.failure import KnownFailure
from haltline.streams.kafka.log_reader import ANSWER_WITHIN_S, bounds, open_consumer, partitions_of, read_partition
from haltline.streams.kafka.log_record import LogRecord
from haltline.streams.kafka.topic_sets import COPY, Headers, headers_of_copy, present
from haltline.streams.operator.changelog_topics import Changelogs
from haltline.streams.operator.next_set import CONFIRM_WITHIN_S, NextChangelog, NextEntries
from haltline.streams.runtime.changelog import OWNER_HEADER, OlderRelease, Owner
from haltline.streams.runtime.confirmed_producer import ConfirmedProducer
from haltline.streams.runtime.control_entries import CHANGELOG_HEADER, is_late
from haltline.streams.runtime.topic_ids import Logs, TopicIds
from haltline.streams.sessions.state_cache import forget, subject_of
from haltline.streams.system import REAL, System

_ROOM_BYTES: Final = 1024 * 1024
"""Added to the largest record of a topic: a bridged copy has a header more."""
_NO_ENDS: Final[Mapping[int, int]] = MappingProxyType({})
_END_KEY: Final = b"session:haltline.topics"
"""The key of a record of `control` without a value: the release of a session that does not exist."""
_VISIBLE_WITHIN_S: Final = 60.0
_NOT_COPIED: Final = frozenset({OWNER_HEADER, CHANGELOG_HEADER, SEAL_HEADER, COPY})
"""Headers of entries that are valid in their own topic only."""

_log = logging.getLogger(__name__)


class NotGrown(KnownFailure):
    """The topics cannot be grown as they are."""


class Group(NamedTuple):
    """A group of workers, before and after."""

    name: str
    changelog: str
    next_changelog: str


@dataclass(frozen=True)
class Grown:
    """What was done."""

    topics: Topics
    """The set that is in use now."""
    partitions: int
    states: int
    entries: int
    """The number of entries of `control` and `policies`."""


def partitions_in_use(bootstrap: str, topics: Topics, client: Mapping[str, ClientSetting]) -> int:
    """Return the number of partitions. Raises NoSuchTopic, Unreachable."""
    with closing(open_consumer(bootstrap, client=client)) as consumer:
        return len(partitions_of(consumer, topics.actions))


def wait_for_leaders(admin: AdminClient, places: Sequence[TopicPartition], *, system: System = REAL) -> None:
    """Wait until the leader of each partition answers; that of a new one first refuses to be it. Raises NotGrown."""

    def ask() -> None:
        requests = {place: OffsetSpec.latest() for place in places}  # type: ignore[no-untyped-call]  # so it is there
        for answer in admin.list_offsets(requests, request_timeout=CONFIRM_WITHIN_S).values():
            answer.result()

    try:
        # _NOENT: no partition has a leader yet
        answered(ask, within_s=_VISIBLE_WITHIN_S, also=frozenset({KafkaError._NOENT}), system=system)
    except KafkaException as failed:
        raise NotGrown(
            f"topics: expected every partition to answer within {_VISIBLE_WITHIN_S:g} s, got {failed}"
        ) from failed


class Growing:
    """One run of the command. `groups`: of the workers, then of those that run rules in shadow."""

    def __init__(
        self,
        bootstrap: str,
        topics: Topics,
        groups: Sequence[Group],
        partitions: int,
        *,
        client: Mapping[str, ClientSetting],
        sealing_key: Path | None = None,
        step: Callable[[str], object] = lambda _: None,
        system: System = REAL,
    ) -> None:
        """`step` receives what is done next. Raises Unreachable, and ValueError and OSError for the key."""
        self._bootstrap = bootstrap
        self._client = dict(client)
        self._system = system
        self._topics, self._next = topics, topics.next
        self._groups = groups
        self._partitions = partitions
        self._sealer = None if sealing_key is None else Sealer(sealing_key)
        self._step = step
        self._owners: dict[int, Owner] = {}
        """The claims to the next changelog of the workers, by partition."""
        self._mark = b""
        self._admin = system.admin({**self._client, "bootstrap.servers": bootstrap}, logger=_log)

    def run(self) -> Grown:
        """Grow the topics.

        Raises:
            NotGrown, OlderRelease: the topics are not as they have to be.
            WorkersRunning: a group has members.
            NoAdminApiError: it is an embedded broker.
            NoSuchTopic, Unreachable, DeliveryFailed: the cluster does not do what it has to.

        """
        topics, following = self._topics, self._next
        with Changelogs(
            self._bootstrap, [one.changelog for one in self._groups], client=self._client, system=self._system
        ) as changelogs:
            self._require_stopped(changelogs)
            there = {span.topic for span in changelogs.spans}
            if self._groups[0].changelog not in there:
                raise NotGrown(f"topic {self._groups[0].changelog}: expected the changelog of the workers, got none")
            groups = [one for one in self._groups if one.changelog in there]
            self._step(f"creating the topics {following.prefix}* with {self._partitions} partitions")
            names = dict(zip(topics.all, following.all, strict=True))
            self._create(names | {one.changelog: one.next_changelog for one in groups})
            self._step("copying the states")
            states = sum(self._copy_states(changelogs, one) for one in groups)
            self._step("copying the entries of control and policies")
            entries = self._copy_entries(topics.control, following.control, self._control_ends())
            entries += self._copy_entries(topics.policies, following.policies)
            self._step("committing where the bridge begins")
            self._begin_bridge()
            self._require_stopped(changelogs)
        self._step(f"naming {following.prefix}* in {topics.control}")
        self._switch()
        return Grown(following, self._partitions, states, entries)

    def _require_stopped(self, changelogs: Changelogs) -> None:
        bridges = [one.bridge_group for one in self._topics.sets[:-1]]
        changelogs.require_no_members([*(one.name for one in self._groups), *bridges])

    def _create(self, names: Mapping[str, str]) -> None:
        """Create the topics that are missing: the next name by the present one, whose settings they get."""
        there = self._admin.list_topics(timeout=ANSWER_WITHIN_S).topics
        if missing := sorted(names.keys() - there.keys()):
            raise NotGrown(f"topics: expected {missing} to be there (haltline topics create), got none of them")
        other = {name: len(there[name].partitions) for name in names.values() if name in there}
        if other := {name: count for name, count in other.items() if count != self._partitions}:
            raise NotGrown(
                f"topics: expected {self._partitions} partitions, as an earlier run created them, got {other}; "
                "run the command with that number, or delete these topics"
            )
        settings = self._settings([name for name in names if names[name] not in there])
        created = [
            NewTopic(
                names[name],
                num_partitions=self._partitions,
                replication_factor=len(there[name].partitions[0].replicas),
                config=config,
            )
            for name, config in settings.items()
        ]
        if created:
            for name, done in self._admin.create_topics(created, request_timeout=CONFIRM_WITHIN_S).items():
                try:
                    done.result()
                except KafkaException as refused:
                    raise NotGrown(f"topic {name}: expected the cluster to create it, got {refused}") from refused
        places = [TopicPartition(name, number) for name in names.values() for number in range(self._partitions)]
        # Also of topics that were there: an earlier run may have ended just after it had created them.
        wait_for_leaders(self._admin, places, system=self._system)

    def _settings(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the settings of topics that differ from the cluster's defaults, with room for a header more."""
        if not names:
            return {}
        described = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        found: dict[str, dict[str, str]] = {}
        for resource, answer in self._admin.describe_configs(described, request_timeout=CONFIRM_WITHIN_S).items():
            entries = answer.result().values()
            own = {one.name: one.value for one in entries if one.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value}
            if resource.name in self._topics.session_sources and "max.message.bytes" in own:
                own["max.message.bytes"] = str(int(own["max.message.bytes"]) + _ROOM_BYTES)
            found[resource.name] = own
        return found

    def _copy_states(self, changelogs: Changelogs, group: Group) -> int:
        logs = self._logs(self._topics, group.changelog)
        with Changelogs(self._bootstrap, [group.next_changelog], client=self._client, system=self._system) as following:
            target = NextChangelog(following)
            for span in [one for one in changelogs.spans if one.topic == group.changelog]:
                states = changelogs.read(span)
                if states.older_release is not None:
                    raise OlderRelease(
                        f"{group.changelog}, partition {span.partition}: expected no states of an older release behind "
                        f"a claim, got one at offset {states.older_release}: see haltline changelog release"
                    )
                changelogs.claim(span, states, target.producer)
                for key, value in states.values.items():
                    recreated = logs.others(states.other_logs.get(key, b""))
                    known = forget(key, value, dict.fromkeys(recreated, 0)) if recreated else value
                    target.put(partition_of(subject_of(key), self._partitions), key, known)
            if group is self._groups[0]:
                self._owners = target.owners
            return target.finish()

    def _logs(self, topics: Topics, changelog: str) -> Logs:
        ids = TopicIds({**self._client, "bootstrap.servers": self._bootstrap}, system=self._system)
        return Logs.of(ids.of([*topics.session_sources, changelog]), changelog)

    def _copy_entries(self, topic: str, following: str, ends: Mapping[int, int] = _NO_ENDS) -> int:
        """Copy the entry of each key that counts. `ends` are those of partitions whose own ends may lag.

        One that a late entry of a replaced worker has displaced is written again.
        """
        last: dict[bytes, LogRecord] = {}
        displaced: set[bytes] = set()
        for record in self._all(topic, ends):
            if record.key is None or record.key in (SETS_KEY, _END_KEY):
                continue
            if record.key in last and is_late(last[record.key], record):
                displaced.add(record.key)
            else:
                last[record.key] = record
                displaced.discard(record.key)
        with NextEntries(topic, self._producer(), set()) as present_ones:
            for key in displaced:
                present_ones.put(key, last[key].value, last[key].headers)
        there = {record.key: record.value is not None for record in self._all(following) if record.key is not None}
        with NextEntries(following, self._producer(), {key for key, is_there in there.items() if is_there}) as target:
            for key, record in last.items():
                if record.value is not None:
                    target.put(key, record.value, self._entry_headers(following, record))
            return target.finish()

    def _control_ends(self) -> dict[int, int]:
        """Return the ends of the partitions of `control`, behind a record that is written to each.

        What a broker reports for the end may lag after a crash.
        """
        producer, ends, key = self._producer(), dict[int, int](), _END_KEY
        topic = self._topics.control
        for partition in range(producer.partitions(topic)):
            producer.send(
                topic,
                key=key,
                value=None,
                headers=self._seal(topic, key, None),
                partition=partition,
                on_offset=partial(ends.__setitem__, partition),
            )
        producer.close(CONFIRM_WITHIN_S)
        return ends

    def _entry_headers(self, topic: str, record: LogRecord) -> Headers:
        if self._sealer is None and any(name == SEAL_HEADER for name, _ in record.headers):
            raise NotGrown(
                f"{record.topic}: expected --sealing-key, the workers' key, for its sealed entries, got none"
            )
        headers = [
            header for header in headers_of_copy(record, self._topics.older_names) if header[0] not in _NOT_COPIED
        ]
        return [*headers, *self._owner(topic, record.key), *self._seal(topic, record.key, record.value)]

    def _owner(self, topic: str, key: bytes | None) -> Headers:
        """Return the headers by which workers see that an entry of an earlier run came late: `control_entries`."""
        if topic != self._next.control or key is None:
            return []
        changelog = self._groups[0].next_changelog
        if not self._mark:
            self._mark = f"{changelog} {self._logs(self._next, changelog).changelog}".rstrip().encode()
        owner = self._owners[partition_of(key.decode(errors="replace").partition(":")[2], self._partitions)]
        return [(OWNER_HEADER, owner.encode()), (CHANGELOG_HEADER, self._mark)]

    def _seal(self, topic: str, key: bytes | None, value: bytes | None) -> Headers:
        """Return the seal of an entry of `control`, which is valid in its topic only."""
        if self._sealer is None or topic not in (self._topics.control, self._next.control):
            return []
        return [self._sealer.seal(topic, key, value, self._system.time_ms())]

    def _begin_bridge(self) -> None:
        workers, bridge = self._member(self._groups[0].name), self._member(self._topics.bridge_group)
        try:
            places = [tp for topic in self._topics.session_sources for tp in partitions_of(workers, topic)]
            begins = []
            ask = partial(workers.committed, places, timeout=CONFIRM_WITHIN_S)
            for place in answered(ask, within_s=CONFIRM_WITHIN_S, system=self._system):
                low, end = bounds(workers, place, system=self._system)
                begins.append(TopicPartition(place.topic, place.partition, max(low, min(place.offset, end))))
            answered(
                partial(bridge.commit, offsets=begins, asynchronous=False),
                within_s=CONFIRM_WITHIN_S,
                system=self._system,
            )
        finally:
            workers.close()
            bridge.close()

    def _switch(self) -> None:
        producer, value = self._producer(), self._next.entry(self._system.time_ms())
        for topic in (self._next.control, self._topics.control):
            producer.send(topic, key=SETS_KEY, value=value, headers=self._seal(topic, SETS_KEY, value))
            producer.flush(CONFIRM_WITHIN_S)
        producer.close(CONFIRM_WITHIN_S)

    def _all(self, topic: str, ends: Mapping[int, int] = _NO_ENDS) -> Iterator[LogRecord]:
        with closing(open_consumer(self._bootstrap, client=self._client, system=self._system)) as consumer:
            for place in partitions_of(consumer, topic):
                low, end = bounds(consumer, place, system=self._system)
                end = ends.get(place.partition, end)
                yield from read_partition(consumer, place, low, end, system=self._system)

    def _member(self, group: str) -> Consumer:
        return open_consumer(self._bootstrap, group, client=self._client, system=self._system)

    def _producer(self) -> ConfirmedProducer:
        return ConfirmedProducer(
            self._bootstrap, delivery_timeout_s=CONFIRM_WITHIN_S, settings=self._client, system=self._system
        )


class OlderSet(NamedTuple):
    """What still happens on the topics of an older set."""

    prefix: str
    waiting: int
    """Published records that the bridge has not copied yet."""
    last_ms: int | None
    """The time of the last published record, in epoch milliseconds; None: there is none any more."""


def older_sets(bootstrap: str, topics: Topics, *, client: Mapping[str, ClientSetting]) -> list[OlderSet]:
    """Return the older sets that have not been removed. Raises Unreachable."""
    return [_older(bootstrap, one, client) for one in present(bootstrap, topics, client=client)[:-1]]


def _older(bootstrap: str, topics: Topics, client: Mapping[str, ClientSetting]) -> OlderSet:
    waiting, last_ms = 0, -1
    with closing(open_consumer(bootstrap, topics.bridge_group, client=client)) as consumer:
        places = [tp for topic in topics.session_sources for tp in partitions_of(consumer, topic)]
        for place in consumer.committed(places, timeout=CONFIRM_WITHIN_S):
            low, end = bounds(consumer, place)
            waiting += end - min(end, max(low, place.offset))
            for record in read_partition(consumer, place, max(low, end - 1), end):
                last_ms = max(last_ms, record.timestamp)
    return OlderSet(topics.prefix, waiting, last_ms if last_ms >= 0 else None)
