"""Records that end the process that decides them are passed over, and no others."""

import asyncio
from collections.abc import Sequence

import pytest

from haltline.streams.replay.records import LogRecord
from haltline.streams.runtime.careful_reading import CarefulReading
from haltline.streams.runtime.changelog import RawRecord
from haltline.streams.runtime.health import Partition
from haltline.streams.runtime.source_reader import Fetched
from haltline.streams.runtime.trial import Trial

PLACE = ("events", 0)


class Bench:
    """Reads a batch whose records say how they behave: "ok", "bad" ends each child, "once" the first one."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.once: set[int] = set()
        self.reading = CarefulReading(trial=self._try, process=self._process, pass_over=self._pass_over)

    def read(self, *values: str) -> list[str]:
        records = [LogRecord(*PLACE, 2 * n, 0, b"k", value.encode()) for n, value in enumerate(values)]
        asyncio.run(self.reading.read(Fetched(1, PLACE, 0, records)))
        return self.done

    async def _try(self, records: Sequence[RawRecord]) -> Trial:
        for number, record in enumerate(records):
            fails_once = record.value == b"once" and record.offset not in self.once
            if record.value == b"bad" or fails_once:
                self.once.add(record.offset)
                return Trial(number, "killed by SIGKILL")
            if record.value == b"slow" and number + 1 < len(records):
                return Trial(number + 1)
        return Trial(len(records))

    def _process(self, place: Partition, records: Sequence[RawRecord], following: int) -> None:
        assert place == PLACE
        self.done.append(f"{[record.offset for record in records]} to {following}")

    def _pass_over(self, place: Partition, record: RawRecord, why: str, following: int) -> None:
        assert place == PLACE
        self.done.append(f"without {record.offset}, {why}, to {following}")


CASES = {
    "all are healthy": (["ok", "ok"], ["[0, 2] to 3"]),
    "one in the middle is bad": (["ok", "bad", "ok"], ["[0] to 2", "without 2, killed by SIGKILL, to 4", "[4] to 5"]),
    "bad ones follow each other": (
        ["bad", "bad"],
        ["without 0, killed by SIGKILL, to 2", "without 2, killed by SIGKILL, to 3"],
    ),
    "one ended a child and not a second one": (["ok", "once", "ok"], ["[0] to 2", "[2] to 4", "[4] to 5"]),
    "there is no time for all at once": (["slow", "ok"], ["[0] to 2", "[2] to 3"]),
}


@pytest.mark.parametrize(("values", "done"), CASES.values(), ids=CASES)
def test_a_batch_is_processed_without_the_records_that_end_two_children(values: list[str], done: list[str]) -> None:
    assert Bench().read(*values) == done


def test_it_concerns_the_records_before_an_offset() -> None:
    reading = Bench().reading
    record = LogRecord(*PLACE, 4, 0, b"k", b"ok")
    batch, end = Fetched(1, PLACE, 4, [record]), Fetched(1, PLACE, 4, [], 5)
    assert not reading.concerns(batch)
    reading.begin({PLACE: 5, ("events", 1): 5})
    assert reading.concerns(batch)
    assert not reading.concerns(end)
    reading.begin({PLACE: 4})
    assert not reading.concerns(batch)
