"""Mistakes put into the product's rules, in the simulation only; the checks have to find each of them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, Message

from benchmarks.simulator import old_rules
from benchmarks.simulator.memory_table import OpenMemoryTable, Step
from haltline.console.read_model.feeder import Feeder
from haltline.streams.audit.writer import AuditWriter
from haltline.streams.runtime import changelog
from haltline.streams.runtime.careful_reading import CarefulReading
from haltline.streams.runtime.changelog import Claim, PartitionState
from haltline.streams.runtime.checkpoint import Checkpointer
from haltline.streams.runtime.confirmed_producer import ConfirmedProducer, Receipt
from haltline.streams.runtime.control_entries import ControlEntries
from haltline.streams.runtime.source_reader import Fetched, SourceReader
from haltline.streams.runtime.topic_watch import TopicWatch
from haltline.streams.runtime.worker_process import Worker

Changed = tuple[Any, str, object]
"""A class or a module, the name of an attribute, and the attribute's new value."""


class Mistake(NamedTuple):
    """One mistake."""

    name: str
    what: str
    """A description in one line, for the table."""
    changes: Callable[[], Iterable[Changed]]


def _claim_not_read() -> Iterable[Changed]:
    def expect(self: PartitionState, claim: Claim) -> None:
        # As if a lagging high watermark were taken for the end.
        self._expected, self._was_read = claim.id, True
        self.owner = changelog.Owner(self.position, claim.id)

    def headers(self: PartitionState) -> object:
        return ((changelog.OWNER_HEADER, changelog.Owner(0, self._expected).encode()),)

    yield PartitionState, "expect", expect
    yield PartitionState, "headers", headers
    yield PartitionState, "_counts", lambda *_: True
    yield PartitionState, "claimed", property(lambda self: bool(self._expected))
    yield PartitionState, "superseded", property(lambda _: False)
    yield PartitionState, "record_confirmed", _confirmed_anywhere
    yield PartitionState, "check_end_offset", lambda *_: None


def _confirmed_anywhere(self: PartitionState, offset: int) -> None:
    self.in_flight -= 1
    self.position = max(self.position, offset + 1)


def _late_records_taken() -> Iterable[Changed]:
    yield PartitionState, "_counts", lambda *_: True


def _late_keys_not_written() -> Iterable[Changed]:
    def overdue(_: Checkpointer, owned: Iterable[PartitionState]) -> list[object]:
        for part in owned:
            part.fenced_keys.clear()
        return []

    yield Checkpointer, "_overdue", overdue


def _late_entries_stay() -> Iterable[Changed]:
    yield ControlEntries, "mend", lambda _: None


def _foreign_writes_unseen() -> Iterable[Changed]:
    yield PartitionState, "record_confirmed", _confirmed_anywhere
    yield PartitionState, "check_end_offset", lambda *_: None


def _foreign_claim_ignored() -> Iterable[Changed]:
    def take_claim(self: PartitionState, claim: Claim, offset: int) -> None:
        self._claims_read = True
        if self._was_read:
            return  # its own claim was read: any other claim is taken for late
        self.owner = changelog.Owner(offset, claim.id)
        self._was_read |= claim.id == self._expected

    yield PartitionState, "_take_claim", take_claim


def _commit_before_states() -> Iterable[Changed]:
    checkpoint = Checkpointer.checkpoint

    async def early(self: Checkpointer, *, pause_s: float = 0.0) -> object:
        for batch in self._processed:
            batch.acknowledge()
        if self._processed:
            await self.commit()
        return await checkpoint(self, pause_s=pause_s)

    yield Checkpointer, "checkpoint", early


async def _not_waited_for(self: ConfirmedProducer, _receipt: object) -> None:
    self.poll()


def _commit_before_flush() -> Iterable[Changed]:
    yield ConfirmedProducer, "confirmed", _not_waited_for


def _states_before_outputs() -> Iterable[Changed]:
    checkpoint, confirmed = Checkpointer.checkpoint, ConfirmedProducer.confirmed
    skip: set[int] = set()

    async def hurried(self: Checkpointer, *, pause_s: float = 0.0) -> object:
        skip.add(id(self.outbox))
        return await checkpoint(self, pause_s=pause_s)

    async def skipping(self: ConfirmedProducer, receipt: Any) -> None:
        if id(self) in skip:
            skip.discard(id(self))
            self.poll()
        else:
            await confirmed(self, receipt)

    yield Checkpointer, "checkpoint", hurried
    yield ConfirmedProducer, "confirmed", skipping


def _report_without_offset_believed() -> Iterable[Changed]:
    def report(self: Receipt, error: KafkaError | None, message: Message) -> None:
        self.confirmed += 1
        if error is not None:
            self.outbox.fail(message, error)

    yield Receipt, "report", report


def _batches_not_forgotten() -> Iterable[Changed]:
    async def forget(self: Checkpointer, partitions: Iterable[int]) -> None:
        async with self._turn:
            self._processor.revoke(list(partitions))

    yield Checkpointer, "forget", forget


def _old_batches_taken() -> Iterable[Changed]:
    take_next = SourceReader._take_next

    def any_assignment(self: SourceReader) -> None:
        for waiting in self._waiting.values():
            for number, fetched in enumerate(waiting):
                waiting[number] = Fetched(self._assignment, *fetched[1:])
        take_next(self)

    yield SourceReader, "_take_next", any_assignment


def _lagging_end_believed() -> Iterable[Changed]:
    async def source_ends(self: Worker, sources: Any, _committed: Mapping[Any, Any]) -> Mapping[Any, int]:
        return TopicWatch.ends(self.topics, sources)

    yield Worker, "source_ends", source_ends


def _never_careful() -> Iterable[Changed]:
    yield PartitionState, "begins_again", lambda *_: False


def _one_child_believed() -> Iterable[Changed]:
    async def read(self: CarefulReading, fetched: Fetched) -> None:
        rest = fetched.records
        while rest:
            tried = await self._try(rest)
            rest = self._decided(fetched, rest, tried.decided)
            if tried.why and rest:
                following = rest[1].offset if rest[1:] else fetched.following
                self._pass_over(fetched.place, rest[0], tried.why, following)
                rest = rest[1:]

    yield CarefulReading, "read", read


def _positions_before_rows() -> Iterable[Changed]:
    def append(self: OpenMemoryTable, rows: Iterable[Any], versions: Mapping[str, int]) -> None:
        each = [row for one in rows for row in (one if hasattr(one, "columns") else (one,))]
        self._table.commit([], versions, self._commits)
        self._table.at_step(Step.OPEN)
        self._table.rows.extend(each)

    yield OpenMemoryTable, "append", append


def _rows_before_positions() -> Iterable[Changed]:
    def append(self: OpenMemoryTable, rows: Iterable[Any], versions: Mapping[str, int]) -> None:
        each = [row for one in rows for row in (one if hasattr(one, "columns") else (one,))]
        self._table.rows.extend(each)
        self._table.at_step(Step.OPEN)
        self._table.commit([], versions, self._commits)

    yield OpenMemoryTable, "append", append


def _table_not_compared() -> Iterable[Changed]:
    yield AuditWriter, "_moved", lambda *_: {}


def _read_model_ahead() -> Iterable[Changed]:
    take = Feeder._take
    advance = Feeder._advance

    def ahead(self: Feeder, records: Any) -> Any:
        with self._engine.begin() as connection:
            advance(self, connection, records)
        self._system.sleep(0.05)
        return take(self, records)

    yield Feeder, "_take", ahead
    yield Feeder, "_advance", lambda *_: None


ALL: Final = (
    Mistake("claim not read", "a partition is owned before its claim was read", _claim_not_read),
    Mistake("late records taken", "records of a replaced owner count", _late_records_taken),
    Mistake("late keys stay", "keys whose last record is late are not written anew", _late_keys_not_written),
    Mistake("late entries stay", "control entries that late ones displace are not written anew", _late_entries_stay),
    Mistake("foreign writes unseen", "where records land is not checked", _foreign_writes_unseen),
    Mistake("foreign claim ignored", "a claim behind one's own is taken for late", _foreign_claim_ignored),
    Mistake("commit before states", "offsets are committed before the states are written", _commit_before_states),
    Mistake("commit before flush", "nothing is waited for before offsets are committed", _commit_before_flush),
    Mistake("states before outputs", "states are written before what follows is confirmed", _states_before_outputs),
    Mistake("offset not looked at", "a delivery report without an offset is believed", _report_without_offset_believed),
    Mistake("batches not forgotten", "batches of partitions that went are acknowledged", _batches_not_forgotten),
    Mistake("old batches taken", "records fetched for an earlier assignment are processed", _old_batches_taken),
    Mistake("lagging end believed", "an end of a broker that has just begun is believed", _lagging_end_believed),
    Mistake("never careful", "what a worker ended at is read as usual each time", _never_careful),
    Mistake("one child believed", "a record that one child did not outlive is passed over", _one_child_believed),
    Mistake("positions before rows", "the audit's positions are committed before its rows", _positions_before_rows),
    Mistake("rows before positions", "the audit's rows are committed before its positions", _rows_before_positions),
    Mistake("table not compared", "a sink does not look where the table stands", _table_not_compared),
    Mistake("read model ahead", "the read model's offsets are committed before its rows", _read_model_ahead),
    Mistake("rules of 9484a9e", "recovery is believed, and the offset moved to the end", old_rules.changes),
)
BY_NAME: Final = {mistake.name: mistake for mistake in ALL}


def make(name: str) -> None:
    """Put a mistake into this process permanently. Raises KeyError for an unknown name."""
    for owner, attribute, changed in BY_NAME[name].changes():
        getattr(owner, attribute)
        setattr(owner, attribute, changed)
