"""A worker's log, created in this process: its inputs, its outputs, and their audit."""

from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

from confluent_kafka import Producer

from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent
from haltline.schemas.partitioner import partition_of
from haltline.schemas.policy import Policy
from haltline.schemas.topics import Topics
from haltline.streams.audit.reading import KafkaRecord, Reader
from haltline.streams.audit.signing import Signer
from haltline.streams.audit.table import DeltaAuditTable
from haltline.streams.audit.writer import AuditWriter, Place
from haltline.streams.engine.core import Core
from haltline.streams.policy.source import News
from haltline.streams.replay.records import LogRecord, Span, in_order
from haltline.streams.replay.replay_worker import ReplayMeter
from haltline.streams.runtime.changelog import PartitionState
from haltline.streams.sessions.processor import SessionProcessor
from tests.builders import at, call

PARTITIONS = 4
TOPICS = Topics()


class LiveLog:
    """Topics, and a worker that is always done with what it was given. Also a `Source` of all that they hold."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.name = "a log"
        self.topics = TOPICS
        self.partitions = PARTITIONS
        self.records: dict[tuple[str, int], list[LogRecord]] = {
            (topic, number): [] for topic in TOPICS.all for number in range(PARTITIONS)
        }
        self.now_ms = 0
        self.dropped: list[bytes] = []
        """Keys of states that the worker dropped because they were idle."""
        self._news: deque[News] = deque()
        self._waiting: deque[LogRecord] = deque()
        self._slices = [PartitionState(number) for number in range(PARTITIONS)]
        self._worker = SessionProcessor(
            Core(policy), topics=TOPICS, partitions=PARTITIONS,
            load=lambda key: next((part.values[key] for part in self._slices if key in part.values), None), outbox=self,
            metrics=ReplayMeter(), policies=lambda: [self._news.popleft() for _ in range(len(self._news))],
            now_ms=lambda: self.now_ms,
        )  # fmt: skip

    def send(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> None:
        """Puts a record on a topic, a millisecond after the one before it."""
        self.now_ms += 1
        partition = partition_of((key or b"").decode(), PARTITIONS)
        kept = self.records[topic, partition]
        present = tuple((name, text) for name, text in headers if text is not None)
        kept.append(LogRecord(topic, partition, len(kept), self.now_ms, key, value, present))
        if topic in TOPICS.session_sources:
            self._waiting.append(kept[-1])

    def events(self, events: Iterable[ActionEvent]) -> "LiveLog":
        """Process the agents' events at their times, with all effects."""
        for one in events:
            self.now_ms = max(self.now_ms, one.time)
            self.send(TOPICS.actions, key=one.session_id.encode(), value=one.to_json())
            self._work()
        return self

    def command(self, command: Command) -> None:
        """Process an operator's command."""
        self.now_ms = max(self.now_ms, command.time)
        self.send(TOPICS.commands, key=command.id.encode(), value=command.to_json())
        self._work()

    def publish(self, policy: Policy) -> None:
        """Another policy, which the worker has at once."""
        value = policy.model_dump_json(exclude_unset=True).encode()
        self.send(TOPICS.policies, key=policy.name.encode(), value=value)
        self._news.append(Core(policy))

    def tick(self, later_ms: int) -> None:
        """Time passes."""
        self.now_ms += later_ms
        self._worker.tick()
        self._work()

    def _work(self) -> None:
        while self._waiting:
            self._worker.process((self._waiting.popleft(),))
            self._checkpoint()

    def _checkpoint(self) -> None:
        """Write a checkpoint, like `Checkpointer` about once a second."""
        for partition, key, state in self._worker.changed():
            self._slices[partition].put(key, state, self.now_ms)
        for part in self._slices:
            for key in part.take_idle(self._worker.idle_before_ms(part.partition), 1_000):
                if not self._worker.retain_when_idle(key, part.values[key]):
                    part.put(key, None, self.now_ms)
                    self.dropped.append(key)

    # As a source of a replay.

    @property
    def spans(self) -> list[Span]:
        return [Span(t, p, 0, len(kept)) for (t, p), kept in self.records.items() if t in TOPICS.session_sources]

    def within(self, timestamp: int) -> bool:  # noqa: ARG002  # all is
        return True

    def inputs(self) -> Iterable[LogRecord]:
        return in_order([self.records[span.topic, span.partition] for span in self.spans], TOPICS)

    def decided(self) -> Iterable[LogRecord]:
        return self._of(TOPICS.interventions)

    def decisions(self) -> list[Decision]:
        return [Decision.model_validate_json(record.value or b"") for record in self.decided()]

    def policies(self) -> Iterable[LogRecord]:
        return self._of(TOPICS.policies)

    def _of(self, topic: str) -> Iterable[LogRecord]:
        return in_order([self.records[topic, number] for number in range(PARTITIONS)], TOPICS)

    def count(self, topic: str) -> int:
        return sum(len(kept) for (name, _), kept in self.records.items() if name == topic)

    def audited(self, folder: Path, signer: Signer | None = None) -> Path:
        """The audit table of it."""
        writer = AuditWriter(DeltaAuditTable(folder), Reader(TOPICS, "audit"), "audit", signer=signer, sign_every=10)
        writer.assign([Place(*place) for place in self.records])
        for place, kept in self.records.items():
            for one in kept:
                writer.add(KafkaRecord(*place, one.offset, one.timestamp, one.key, one.value, tuple(one.headers)))
        writer.flush(self.now_ms, closing=True)
        return folder


def deletes(session: str, *seconds: float) -> list[ActionEvent]:
    """One table of its own deleted again and again, at these seconds."""
    events = [one for second in seconds for one in call(second, "delete_asset", f"asset_id={session}", session=session)]
    return [one.model_copy(update={"agent_id": f"of {session}"}) for one in events]


def label_of(
    session: str, word: str, decision_id: str | None = None, *, rule: str | None = None, second: float = 900
) -> Command:
    """An operator's label of a decision, or of a session in which a rule has missed something."""
    return Command(
        command_id=f"{session} {word} {decision_id} {rule} {second:g}", kind=CommandKind.LABEL, id=session, by="ada",
        reason="looked at it", time=at(second), label=word, decision_id=decision_id, code=rule,
    )  # fmt: skip


def works(session: str, count: int = 20, begin: float = 0.0) -> list[ActionEvent]:
    """A session that looks at one thing after the other."""
    looks = (call(begin + n, "look_up", f"asset_id=a{n}", session=session) for n in range(count))
    return [one for look in looks for one in look]


def a_night(policy: Policy | None = None) -> LiveLog:
    """Six sessions, of which two delete one table again and again."""
    log = LiveLog(policy)
    sessions = [deletes("night-1", 0, 6, 12, 18, 24), deletes("night-2", 100, 106, 112, 118)]
    sessions += [works(f"day-{number}", begin=number * 3) for number in range(4)]
    return log.events(sorted((one for session in sessions for one in session), key=lambda one: one.time))


def named(topic: str, topics: Topics) -> str:
    """The topic by the names of other topics."""
    return topics.prefix + topic.removeprefix(TOPICS.prefix)


def put(bootstrap: str, log: LiveLog, topics: Topics = TOPICS) -> None:
    """The whole log, as it was, onto a broker."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for (topic, partition), kept in log.records.items():
        for record in kept:
            producer.produce(
                named(topic, topics), record.value, record.key, partition=partition, timestamp=record.timestamp
            )
    assert producer.flush(10) == 0
