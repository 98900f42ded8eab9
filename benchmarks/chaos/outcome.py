"""The comparison after a chaos run: all topics and tables, and for differences their place and its owner."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Any

import orjson

from benchmarks.chaos import damage, guarded, poison, recreated, report, verify
from benchmarks.chaos.expected import BEFORE, Observe, Place, Truth, unobserved, work_out
from benchmarks.chaos.history import PartitionHistory, histories
from benchmarks.chaos.owners import Owner, Owners
from benchmarks.chaos.parting import Parting
from benchmarks.chaos.plan import AGENT
from benchmarks.chaos.read_model import check_read_model
from benchmarks.chaos.report import Compared
from benchmarks.chaos.system import System
from benchmarks.chaos.verify import Difference
from benchmarks.cluster import PARTITIONS
from haltline.schemas.partitioner import partition_of
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

    def compare(self, events_by_session: Mapping[str, int], strikes: Sequence[damage.Strike]) -> list[Compared]:
        """Run all checks; return them in the order in which they are shown."""
        topics = self._topics
        states = [compared for runs in self._system.changelogs for compared in self._states(runs, events_by_session)]
        of_states = [letter for letter in self._of("dead-letter") if damage.is_of_state(letter)]
        letters = [letter for letter in self._of("dead-letter") if letter not in of_states]
        truth = guarded.of_others(self.truth(Runs.ALL))
        by_evidence = [
            verify.check_decisions(truth, self._of_others("interventions")),
            verify.check_detections(truth, self._of_others("detections")),
            verify.check_signals(truth, self._of_others("signals")),
            verify.check_control(truth, self._of_others("control")),
            verify.check_dead_letters(truth, self._sources, letters, name_of=self._gone.name_of),
        ]
        raw = {place: record.value for place, record in self._log.items()}
        others = [
            self._damage(strikes, of_states),
            verify.check_audit(self._audit_rows(self._system.sink()), raw),
            verify.check_audit(*self._audit_of_gone(), "the audit table holds each record of the deleted topic once"),
            check_read_model(self._system.database, self._system.bootstrap, topics),
            guarded.check_refusals(self._system.logs.glob(f"{AGENT}.*.log")),
        ]
        explain = partial(report.of_evidence, place_of=self._place_of, owner_of=self._owner_of)
        return [
            *states,
            *(Compared(check, explain(check.differences)) for check in by_evidence),
            *map(Compared.by_kind, others),
        ]

    def truth(self, runs: Runs, observe: Observe = unobserved) -> Truth:
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
            observe=observe,
        )

    def _of(self, name: str) -> list[LogRecord]:
        """Return the records of the topic with this name behind the prefix."""
        return [record for record in self._log.values() if record.topic == self._topics.prefix + name]

    def _of_others(self, name: str) -> list[LogRecord]:
        return [record for record in self._of(name) if self._is_of_others(record)]

    def _is_of_others(self, record: LogRecord) -> bool:
        return guarded.is_of_others(record, [self._topics.signals])

    def _damage(self, strikes: Sequence[damage.Strike], letters: Sequence[LogRecord]) -> verify.Check:
        return damage.check(strikes, letters, self._changelog(Runs.ENFORCED), self._owners[Runs.ENFORCED])

    def _states(self, runs: Runs, events_by_session: Mapping[str, int]) -> list[Compared]:
        kept = verify.last_states(self._system.read([self._system.changelogs[runs]]))
        kept = {name: state for name, state in kept.items() if name not in guarded.APART}
        truth = self.truth(runs)
        counts = verify.check_counts(events_by_session, kept, f"every session's count is exact ({runs})")
        states = verify.check_states(truth, kept, f"every state is the pure core's ({runs})")
        if counts.ok and states.ok:
            return [Compared(counts), Compared(states)]
        names = {difference.about for difference in chain(counts.differences, states.differences)}
        parting = Parting(self._changelog(runs).values(), names, verify.shown, verify.without_ticks)
        self.truth(runs, parting.observe)
        explain = partial(
            report.of_states,
            partition_of=_partition_of_state,
            parted={name: parting.first(name) for name in names},
            owners=self._owners[runs],
        )
        return [Compared(check, explain(check.differences)) for check in (counts, states)]

    def _changelog(self, runs: Runs) -> dict[int, PartitionHistory]:
        return histories(self._system.read([self._system.changelogs[runs]]))

    @cached_property
    def _owners(self) -> dict[Runs, Owners]:
        return {runs: self._system.owners(runs) for runs in self._system.changelogs}

    def _owner_of(self, place: Place) -> Owner | None:
        """Return the owner of the partition of a source record when the record was sent."""
        record = self._sources.get(place)
        if record is None:
            return None
        return self._owners[Runs.ENFORCED].at_time(record.partition, record.timestamp)

    def _place_of(self, difference: Difference) -> Place | None:
        if difference.place is None:
            return self._places.get(difference.follows_from or "")
        topic, partition, offset = difference.place
        before = (topic + BEFORE, partition, offset)
        return before if difference.place not in self._sources and before in self._sources else difference.place

    @cached_property
    def _places(self) -> dict[str, Place]:
        """The first place of each event and command; a decision has that of its event. Used for differences only."""
        places: dict[str, Place] = {}
        topics = self._topics
        for place, record in self._sources.items():
            if place[0] in (topics.actions, topics.actions + BEFORE, topics.commands):
                found = _fields(record.value)
                places.setdefault(found.get("event_id") or found.get("command_id") or "", place)
        for record in self._of("interventions"):
            found = _fields(record.value)
            if found.get("event_id") in places:
                places[found.get("decision_id", "")] = places[found["event_id"]]
        places.pop("", None)
        return places

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


def _partition_of_state(name: str) -> int:
    """Return the partition of a state's session, or of the id in a scope's name `scope:id`."""
    return partition_of(name.partition(":")[2] or name, PARTITIONS)


def _fields(value: bytes | None) -> Mapping[str, str]:
    """Return the text fields of a JSON record; empty when it is not a JSON object."""
    try:
        fields: Any = orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        return {}
    return {name: text for name, text in fields.items() if isinstance(text, str)} if isinstance(fields, dict) else {}
