"""Checks consumer groups, broker and canary every few seconds, whether or not a page is open."""

import logging
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # its stubs miss them
from sqlalchemy import Engine, select

from haltline.console.problem_kinds import Part, Problem
from haltline.console.protection import Flight, Known, answered, compared, problems_of, samples, unanswered, waiting
from haltline.console.read_model import tables
from haltline.console.read_model.feeder import Feeder
from haltline.console.settings import ConsoleSettings
from haltline.interventions.outage import Outage
from haltline.schemas.decisions import Level
from haltline.streams.engine.groups import Runs
from haltline.streams.kafka.log_reader import NoSuchTopic
from haltline.streams.kafka.partition_offsets import offsets_of
from haltline.streams.operator.canary import SESSIONS, every_s_of
from haltline.streams.runtime.health import Partition, Sample

log: Final = logging.getLogger("haltline.console")

_ANSWER_WITHIN_S: Final = 5.0
_BEGINS_EVERY_S: Final = 30.0
"""The interval in seconds for requesting all partitions and their first offsets."""


class ProtectionWatch:
    """A thread that updates the state of protection, from `start` until `close`."""

    def __init__(self, settings: ConsoleSettings, engine: Engine, feeder: Feeder) -> None:
        self._settings = settings
        self._limits = settings.protection
        self._engine = engine
        self._feeder = feeder
        self._client = {**settings.client, "bootstrap.servers": settings.bootstrap}
        self._outage = Outage(log, "the console's look at consumer groups: the broker")
        self._begins: dict[Partition, int] = {}
        self._begins_s = 0.0
        self._known = Known(looked_s=time.time())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="haltline-protection", daemon=True)

    @property
    def looked_s(self) -> float:
        """Epoch seconds of the last check that the broker answered."""
        return self._known.looked_s

    def problems(self) -> list[Problem]:
        """The present problems, the worst first."""
        return problems_of(self._known, time.time(), self._limits)

    def start(self) -> None:
        """Start the checks."""
        self._thread.start()

    def close(self) -> None:
        """Stop after the running check."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        admin: AdminClient | None = None
        while not self._ended.wait(self._limits.look_every_s):
            try:
                admin = admin or AdminClient(self._client, logger=log)
                groups = self._groups(admin)
                self._known = answered(self._known, groups, time.time(), self._limits)
                self._outage.back()
            except Exception as failed:  # any failure: without the checks, a stopped worker would not be noticed
                self._outage.away(failed)
                self._known = unanswered(self._known, str(failed), time.time())
                admin = None  # this client may keep addresses of brokers from before a crash
            try:
                self._look_at_the_read_model()
            except Exception as failed:  # like above; the feeder logs it too
                log.warning("protection: the read model cannot be read: %s", failed)

    def _look_at_the_read_model(self) -> None:
        now_s = time.time()
        self._known = waiting(self._known, self._feeder.missing, now_s)
        prefix = self._settings.topics.prefix
        found = [replace(one, topic=f"{prefix}{one.topic}") for one in self._feeder.mismatches()]
        self._known = compared(self._known, found, now_s)
        self._known = replace(self._known, flight=last_flight(self._engine, now_s))

    def _groups(self, admin: AdminClient) -> dict[Part, Mapping[Partition, Sample]]:
        settings, topics = self._settings, self._settings.topics
        if self._feeder.missing:  # the broker answered: without its topics there is no group yet
            return {}
        begins = self._beginnings(admin)
        places = list(begins)
        actions = [at for at in places if at[0] == topics.actions]
        ends = offsets_of(admin, places, OffsetSpec.latest(), _ANSWER_WITHIN_S)  # type: ignore[no-untyped-call]  # its stubs miss it
        found: dict[Part, Mapping[Partition, Sample]] = {
            Part.WORKERS: samples(_committed(admin, settings.workers, actions), begins, ends)
        }
        for part, group, those, is_expected in (
            (Part.SHADOW, Runs.SHADOW.group(settings.workers), actions, False),
            (Part.SINK, settings.sink, places, settings.audit_table is not None),
        ):
            try:
                committed = _committed(admin, group, those)
            except KafkaException as refused:  # such as a principal without permission for this group
                log.debug("group %s: its offsets are not known: %s", group, refused)
                continue
            if is_expected or any(offset is not None for offset in committed.values()):
                found[part] = samples(committed, begins, ends)
        positions = self._feeder.positions()
        found[Part.CONSOLE] = samples(
            {at: positions[at][0] if at in positions else None for at in places},
            begins,
            ends,
            {at: last_ms for at, (_, last_ms) in positions.items()},
        )
        return found

    def _beginnings(self, admin: AdminClient) -> dict[Partition, int]:
        """The first offset of every existing partition; changes by retention and new partitions are noticed later."""
        now_s = time.monotonic()
        if not self._begins or now_s - self._begins_s >= _BEGINS_EVERY_S:
            topics, there = self._settings.topics, admin.list_topics(timeout=_ANSWER_WITHIN_S).topics
            if topics.actions not in there:
                raise NoSuchTopic(f"topic {topics.actions}: expected one that is there, got none of this name")
            places = [(name, number) for name in topics.all if name in there for number in there[name].partitions]
            self._begins = offsets_of(admin, places, OffsetSpec.earliest(), _ANSWER_WITHIN_S)  # type: ignore[no-untyped-call]  # like above
            self._begins_s = now_s
        return self._begins


def _committed(admin: AdminClient, group: str, places: Collection[Partition]) -> dict[Partition, int | None]:
    """The committed offset by partition; None: none. Raises KafkaException."""
    request = ConsumerGroupTopicPartitions(group, [TopicPartition(*at) for at in places])
    (future,) = admin.list_consumer_group_offsets([request], request_timeout=_ANSWER_WITHIN_S).values()
    found = future.result().topic_partitions
    return {(tp.topic, tp.partition): tp.offset if tp.offset >= 0 else None for tp in found}


_DAY_S = 86_400


def last_flight(engine: Engine, now_s: float) -> Flight | None:
    """The last canary within a day; None: there was none."""
    table = tables.sessions.c
    statement = (
        select(table.session_id, table.first_ms, table.hardest, table.goal)
        .where(
            table.session_id.between(SESSIONS, f"{SESSIONS}g"),  # hexadecimal; uses the index of ids
            table.session_id.startswith(SESSIONS, autoescape=True),
            table.first_ms > (now_s - _DAY_S) * 1000,
        )
        .order_by(table.first_ms.desc())
        .limit(1)
    )
    with engine.connect() as connection:
        row = connection.execute(statement).one_or_none()
    if row is None:
        return None
    return Flight(
        session_id=row.session_id,
        began_s=row.first_ms / 1000,
        killed=row.hardest >= Level.KILL.rank,
        every_s=every_s_of(row.goal),
    )
