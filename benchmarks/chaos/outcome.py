"""The comparison after a chaos run: all topics and tables."""

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.chaos import damage, guarded, poison, recreated, verify
from benchmarks.chaos.expected import Place, Truth, work_out
from benchmarks.chaos.history import PartitionHistory, histories
from benchmarks.chaos.plan import AGENT
from benchmarks.chaos.read_model import check_read_model
from benchmarks.chaos.system import System
from benchmarks.chaos.verify import Check
from haltline.streams.audit.query import open_query
from haltline.streams.engine.groups import Runs
from haltline.streams.replay.records import LogRecord


class Outcome:
    """The comparison of one run whose processes have ended."""

    def __init__(self, system: System, gone: recreated.Gone) -> None:
        self._system = system
        self._topics = system.topics
        self._gone = gone
        self._log = {(r.topic, r.partition, r.offset): r for r in system.read(self._topics.all)}
        self._sources = self._log | {(r.topic, r.partition, r.offset): r for r in gone.records}

    def compare(self, events_by_session: Mapping[str, int], strikes: Sequence[damage.Strike]) -> list[Check]:
        """Run all checks; return them in the order in which they are shown."""
        topics = self._topics
        of_states = [letter for letter in self._of("dead-letter") if damage.is_of_state(letter)]
        letters = [letter for letter in self._of("dead-letter") if letter not in of_states]
        truth = guarded.of_others(self.truth(Runs.ALL))
        raw = {place: record.value for place, record in self._log.items()}
        return [
            *(check for runs in self._system.changelogs for check in self._states(runs, events_by_session)),
            verify.check_decisions(truth, self._of_others("interventions")),
            verify.check_detections(truth, self._of_others("detections")),
            verify.check_signals(truth, self._of_others("signals")),
            verify.check_control(truth, self._of_others("control")),
            verify.check_dead_letters(truth, self._sources, letters, name_of=self._gone.name_of),
            damage.check(strikes, of_states, self._changelog(Runs.ENFORCED)),
            verify.check_audit(self._audit_rows(self._system.sink()), raw),
            verify.check_audit(*self._audit_of_gone(), "the audit table holds each record of the deleted topic once"),
            check_read_model(self._system.database, self._system.bootstrap, topics),
            guarded.check_refusals(self._system.logs.glob(f"{AGENT}.*.log")),
        ]

    def truth(self, runs: Runs) -> Truth:
        """Return the expected results of the rules that these workers run."""
        actions, commands = self._of_others("actions"), self._of_others("commands")
        gone = [record for record in self._gone.records if self._is_of_others(record)]
        return work_out(
            actions,
            commands,
            self._of("signals"),
            self._topics,
            gone=gone,
            precedes=self._gone.precedes,
            runs=runs,
            ends_worker=poison.ends_worker,
        )

    def _of(self, name: str) -> list[LogRecord]:
        """Return the records of the topic with this name behind the prefix."""
        return [record for record in self._log.values() if record.topic == self._topics.prefix + name]

    def _of_others(self, name: str) -> list[LogRecord]:
        return [record for record in self._of(name) if self._is_of_others(record)]

    def _is_of_others(self, record: LogRecord) -> bool:
        return guarded.is_of_others(record, [self._topics.signals])

    def _states(self, runs: Runs, events_by_session: Mapping[str, int]) -> list[Check]:
        kept = verify.last_states(self._system.read([self._system.changelogs[runs]]))
        kept = {name: state for name, state in kept.items() if name not in guarded.APART}
        return [
            verify.check_counts(events_by_session, kept, f"every session's count is exact ({runs})"),
            verify.check_states(self.truth(runs), kept, f"every state is the pure core's ({runs})"),
        ]

    def _changelog(self, runs: Runs) -> dict[int, PartitionHistory]:
        return histories(self._system.read([self._system.changelogs[runs]]))

    def _audit_rows(self, sink: str, topic: str = "%") -> Iterator[tuple[Place, bytes | None]]:
        columns = '"topic", "partition", "offset", "raw"'
        for row in open_query(self._system.table).iter_rows(
            f"SELECT {columns} FROM audit WHERE sink = '{sink}' AND topic LIKE '{topic}'"
        ):
            yield (row["topic"], row["partition"], row["offset"]), row["raw"]

    def _audit_of_gone(self) -> tuple[Iterator[tuple[Place, bytes | None]], dict[Place, bytes | None]]:
        """Return the audit rows and the records of the deleted topic; empty when none was deleted."""
        topic = self._gone.topic
        rows = self._audit_rows(self._system.sink(lives_before=1), topic)
        return rows, {(topic, record.partition, record.offset): record.value for record in self._gone.records}
