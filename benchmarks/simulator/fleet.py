"""The processes of a history: workers, audit sinks, the console's feeder, and the sender of the traffic."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Final, NoReturn, cast

from confluent_kafka import KafkaError, KafkaException, Message
from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import StaticPool

from benchmarks.simulator.broker import ADDRESS, Broker
from benchmarks.simulator.group import group_of
from benchmarks.simulator.loop import SimLoop
from benchmarks.simulator.membership import SimMembership
from benchmarks.simulator.memory_table import MemoryAuditTable
from benchmarks.simulator.poison import PoisonedProcessor, trials
from benchmarks.simulator.process import Process
from benchmarks.simulator.quiet import NoCollector, NoMetrics
from benchmarks.simulator.threads import system_of
from benchmarks.simulator.workload import PARTITIONS, TOPICS, Sent, core
from benchmarks.simulator.world import World
from haltline.console.read_model.feeder import Feeder
from haltline.console.read_model.store import prepare
from haltline.streams.audit.settings import AuditSettings
from haltline.streams.audit.sink import AuditSink
from haltline.streams.runtime.membership import Hooks, Membership
from haltline.streams.runtime.ports import Outbox
from haltline.streams.runtime.processor_api import Load
from haltline.streams.runtime.worker_process import Worker
from haltline.streams.runtime.worker_settings import WorkerSettings
from haltline.streams.sessions.processor import SessionProcessor
from haltline.streams.sessions.session_metrics import SessionMetrics

GROUP: Final = "haltline"
AUDIT_GROUP: Final = "haltline-audit"
SESSION_S: Final = 2.0
_SINK_SESSION_S: Final = 1.0
_BURST_ENDS_SHARE: Final = 0.25
"""The share of records after which the traffic pauses."""


def start_worker(world: World, broker: Broker, name: str, *, instance_id: str | None, standbys: int) -> Process:
    """Start a worker."""
    process = Process(world, name)
    system = system_of(process, broker)
    loop = SimLoop(process)

    def join(settings: WorkerSettings, hooks: Hooks, beside: Callable[[str], str], /) -> Membership:
        group = group_of(broker, settings.group)
        return SimMembership(
            process, loop, broker, group, hooks, topics=(*settings.sources, settings.changelog),
            instance_id=settings.instance_id, session_s=settings.session_timeout_s, beside=beside,
        )  # fmt: skip

    async def main() -> None:
        settings = replace(SETTINGS, instance_id=instance_id, standby_replicas=standbys)
        end = cast("Callable[[BaseException], NoReturn]", process.end)

        def sessions(load: Load, outbox: Outbox) -> SessionProcessor:
            made = PoisonedProcessor(
                core(),
                topics=TOPICS,
                partitions=PARTITIONS,
                load=load,
                outbox=outbox,
                metrics=SessionMetrics(NoMetrics()),
                now_ms=system.time_ms,
                changelog=settings.changelog,
            )
            made.process_of = process
            return made

        await Worker(
            settings, sessions, NoMetrics(), join=join, end=end, garbage=NoCollector(), trial=trials(process),
            system=system,
        ).run()  # fmt: skip

    loop.start(main)
    return process


SETTINGS: Final = WorkerSettings(
    bootstrap=ADDRESS,
    sources=TOPICS.session_sources,
    group=GROUP,
    control=TOPICS.control,
    checkpoint_interval_s=0.6,
    max_poll_records=20,
    session_timeout_s=SESSION_S,
    rebalance_timeout_s=2 * SESSION_S,
    delivery_timeout_s=8.0,
    recovery_stuck_after_s=15.0,
    watermark_interval_s=2.0,  # within the time after which a history ends: late records are seen
)
"""The settings of every worker."""
CHANGELOG: Final = SETTINGS.changelog


def sink_of(life: int) -> str:
    """Return the audit's name in a life of the topics."""
    return f"audit-{life}"


def start_sink(world: World, broker: Broker, name: str, table: MemoryAuditTable, sink: str) -> Process:
    """Start an audit sink."""
    process = Process(world, name)
    settings = AuditSettings(
        bootstrap=ADDRESS, topics=TOPICS, table="in memory", sink=sink, group=AUDIT_GROUP,
        flush_s=0.8, session_timeout_s=_SINK_SESSION_S, answer_within_s=4.0, redact=(),
    )  # fmt: skip

    def run() -> None:
        reading = AuditSink(settings, table=table, system=system_of(process, broker))
        process.on_signal = reading.stop
        reading.run()
        process.end("stopped")

    process.start_thread("sink", run)
    return process


def start_console(world: World, broker: Broker, name: str, engine: Engine) -> Process:
    """Start the part of the console that updates the read model."""
    process = Process(world, name)
    system = system_of(process, broker)
    stop = system.event()
    process.on_signal = stop.set

    def run() -> None:
        feeder = Feeder(engine, ADDRESS, topics=TOPICS, group="haltline-console", look_every_s=4.0, system=system)
        feeder.start()
        while not stop.wait(1.0):
            if feeder.failure is not None:
                process.end(feeder.failure)
        feeder.close()
        process.end("stopped")

    process.start_thread("console", run)
    return process


class Traffic:
    """Sends the records of agents and operators, and retries until all are delivered."""

    def __init__(self, world: World, broker: Broker, records: list[Sent], seconds: float) -> None:
        self.process = process = Process(world, "traffic")
        system = system_of(process, broker)
        self.done = False

        def run() -> None:
            producer = system.producer({"delivery.timeout.ms": 120_000})
            pause_s = seconds / max(1, len(records))
            for record in records:
                producer.produce(record.topic, key=record.key, value=record.value, on_delivery=_delivered)
                if world.chance(_BURST_ENDS_SHARE):
                    producer.poll(0)
                    system.sleep(pause_s / _BURST_ENDS_SHARE)
            if left := producer.flush(120.0):
                raise RuntimeError(f"traffic: expected every record delivered, got {left} that are not")
            self.done = True

        process.start_thread("traffic", run)


def _delivered(error: KafkaError | None, _message: Message) -> None:
    if error is not None:
        raise KafkaException(error)


@cache
def _empty_read_model() -> sqlite3.Connection:
    """Return a database with empty tables, to be copied: creating them takes too long for each history.

    Indexes and triggers for searching are dropped: they are unused here and cost most of an insert.
    """
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    prepare(engine)
    searching = connection.execute(
        "SELECT type, name FROM sqlite_master WHERE type = 'trigger' OR type = 'index' AND sql NOT LIKE '%UNIQUE%'"
    )
    for kind, name in searching.fetchall():
        connection.execute(f'DROP {kind} "{name}"')
    connection.commit()
    return connection


def open_read_model(name: str) -> Engine:
    """Return a read model in memory, empty after each call."""
    engine = _engine(name)
    engine.dispose()
    return engine


@cache
def _engine(name: str) -> Engine:
    """Return one engine for all histories, because an engine caches compiled statements."""
    del name
    return create_engine("sqlite://", creator=_copy, poolclass=StaticPool)


def _copy() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    _empty_read_model().backup(connection)
    return connection
