"""The system of a chaos run: topics, workers of both groups, the audit sink, the console, and an agent with a guard."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

from confluent_kafka import Message

from benchmarks import processes
from benchmarks.chaos import guarded
from benchmarks.chaos.expected import document
from benchmarks.chaos.fleet import Fleet
from benchmarks.chaos.plan import AGENT, AUDIT, CONSOLE, SHADOW
from benchmarks.chaos.read_model import places, reached, url_of
from benchmarks.cluster import Cluster, Group
from haltline.schemas.control import CommandKind
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.topics import Topics
from haltline.streams.audit.query import open_query
from haltline.streams.engine.groups import Runs
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.subprocesses import Children
from haltline.streams.operator.client import Operator
from haltline.streams.replay.records import LogRecord

GROUP = "chaos"
PREFIX = "chaos."
SETTLE_WITHIN_S = 180.0
SESSION_TIMEOUT_S = 4.0
_LOOK_EVERY_S = 0.5


class System:
    """The topics and processes of one run, on one broker. `children` stops the processes."""

    def __init__(
        self,
        kafka: LocalKafka,
        children: Children,
        folder: Path,
        *,
        seed: int,
        workers: int,
        tell: Callable[[str], None],
    ) -> None:
        self.kafka = kafka
        self.bootstrap = kafka.bootstrap
        self.folder = folder
        self.topics = Topics(PREFIX)
        self.table = folder / "audit"
        self.workers = tuple(f"worker-{number + 1}" for number in range(workers))
        self.fleet = Fleet(children, processes.WORKER, random.Random(seed), tell=tell)
        self.lives_of_topic = 0
        """The number of times the topic of actions was recreated. Readers get another name and database each time."""
        self.codes: dict[str, int] = {}
        """By process that was stopped: its first exit status other than 0, or 0."""
        self._cluster = Cluster(kafka)
        self.groups = {runs: runs.group(GROUP) for runs in (Runs.ENFORCED, Runs.SHADOW)}
        """The workers' groups."""
        self.changelogs = {runs: f"{group}-sessions-changelog" for runs, group in self.groups.items()}

    def make_topics(self) -> None:
        """Create all topics that do not exist."""
        self._cluster.make_topics(self.topics, *self.changelogs.values())

    def start_workers(self) -> None:
        """Start the workers of both groups; every second one is a static member."""
        base = ["worker", "--bootstrap", self.bootstrap, "--prefix", PREFIX, "--group", GROUP]
        base += ["--policy", str(document(self.folder)), "--session-timeout", f"{SESSION_TIMEOUT_S:g}"]
        for number, name in enumerate(self.workers):
            options = ["--instance-id", name] if number % 2 == 0 else []
            self.fleet.add(name, [*base, "--rules", Runs.ENFORCED, *options])
        self.fleet.add(SHADOW, [*base, "--rules", Runs.SHADOW, "--instance-id", SHADOW])  # as in deploy/

    def kill_guarded(self) -> None:
        """Kill the agent's session before the agent starts. The kill has to be in force at the end."""
        operator = Operator(self.bootstrap, topics=self.topics, group=GROUP, answer_within_s=SETTLE_WITHIN_S)
        killed = operator.command(
            CommandKind.KILL, ScopeKind.SESSION, guarded.SESSION, by="chaos", reason="before all faults"
        )
        if not killed.answered:
            raise RuntimeError(
                f"kill of {guarded.SESSION}: expected it in force within {SETTLE_WITHIN_S:g} s, it is not"
            )

    def start_agent(self) -> None:
        """Start the agent with a guard."""
        self.fleet.add_module(
            AGENT,
            "benchmarks.chaos.guarded",
            [self.bootstrap, PREFIX],
            is_ready=lambda child: guarded.is_refused(child.log_file),
        )

    def start_readers(self) -> None:
        """Start the audit sink and the console."""
        audit = ["audit", "--bootstrap", self.bootstrap, "--prefix", PREFIX, "--sink", self.sink()]
        self.fleet.add(AUDIT, [*audit, "--table", str(self.table), "--flush", "1"])
        console = ["console", "--bootstrap", self.bootstrap, "--prefix", PREFIX, "--group", GROUP]
        self.fleet.add(CONSOLE, [*console, "--database", url_of(self.database)], port_option="--port")

    def sink(self, lives_before: int = 0) -> str:
        """Return the audit's name, which differs for each life of the topic."""
        return f"audit-{self.lives_of_topic - lives_before}"

    @property
    def database(self) -> Path:
        """Return the console's database, another one for each life of the topic."""
        return self.folder / f"console-{self.lives_of_topic}.db"

    @property
    def logs(self) -> Path:
        """The folder of the processes' logs, one file per life."""
        return self.folder / "logs"

    def end(self, *names: str) -> None:
        """Stop processes by SIGTERM; their exit statuses are checked afterwards."""
        for name in names:
            code = self.fleet.end(name)
            self.codes[name] = self.codes.get(name, 0) or code

    def watched(self) -> list[Group]:
        """Return the watched offsets of both worker groups."""
        return [Group(self.bootstrap, group, self.topics.session_sources) for group in self.groups.values()]

    def wait_for_readers(self) -> None:
        """Wait until table and read model have caught up. The comparison finds what is missing."""
        ends: dict[tuple[str, int], int] = {}
        records = 0
        for record in self.read(self.topics.all):
            records += 1
            ends[record.topic, record.partition] = record.offset + 1
        expected = places(ends, self.topics)
        deadline = time.monotonic() + SETTLE_WITHIN_S
        while time.monotonic() < deadline:
            self.fleet.supervise()
            sql = f"SELECT count(*) AS \"rows\" FROM audit WHERE sink = '{self.sink()}'"
            rows = open_query(self.table).rows(sql)[0]["rows"]
            if rows >= records and expected.items() <= reached(self.database).items():
                return
            time.sleep(_LOOK_EVERY_S)

    def read(self, topics: Sequence[str]) -> Iterator[LogRecord]:
        """Return every record of topics, each partition in order."""
        with LogReader(self.bootstrap, topics) as reader:
            for message in reader.to_end(within_s=SETTLE_WITHIN_S):
                yield _record(message)


def _record(message: Message) -> LogRecord:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise RuntimeError(f"expected a record with its place, got {message!r}")
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return LogRecord(
        topic, partition, offset, message.timestamp()[1], _bytes(message.key()), _bytes(message.value()), headers
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
