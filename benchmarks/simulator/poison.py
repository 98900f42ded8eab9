"""Records that end the worker that decides them: by a hang, a signal or by memory; and the trials that find them."""

import asyncio
from collections.abc import Sequence
from typing import Final

import orjson

from benchmarks.simulator.process import Process
from haltline.streams.runtime.changelog import RawRecord
from haltline.streams.runtime.trial import Trial, Try
from haltline.streams.sessions.processor import SessionProcessor

HOW: Final = ("hangs", "kills", "eats")
_ACTION: Final = "poison "
_ENDS_AFTER_S: Final = 4.0
"""The watchdog's limit: twice the session timeout."""
_FAILS_SHARE: Final = 0.1
"""The share of trials that fail once for another reason than a record."""
_TRIAL_S: Final = 0.05


def poisonous(value: bytes, number: int, how: str) -> bytes:
    """Return an event like this one, with its own id, that ends a worker."""
    return orjson.dumps(orjson.loads(value) | {"event_id": f"poison-{number}", "action": _ACTION + how})


def is_poison(record: RawRecord) -> bool:
    """Return whether a record ends the worker that decides it."""
    return f'"action":"{_ACTION}'.encode() in (record.value or b"")


class PoisonedProcessor(SessionProcessor):
    """A session processor in a simulated process, which ends at some records."""

    process_of: Process

    def process(self, records: Sequence[RawRecord]) -> None:
        """Process a micro-batch up to the first record that ends the process."""
        bad = _first(records)
        if bad:
            super().process(records[:bad])
        if bad < len(records):
            self._end(records[bad].value or b"")

    def _end(self, value: bytes) -> None:
        process = self.process_of
        if b"poison kills" in value:
            process.kill()
        if b"poison hangs" in value:
            process.freeze()
            process.world.after(_ENDS_AFTER_S, lambda: process.end("hung"))
            while True:
                process.world.wait()
        raise MemoryError("simulated")


def trials(process: Process) -> Try:
    """Return what makes the trials of a process."""
    failed = set[tuple[str, int, int]]()

    async def tried(_decide: object, records: Sequence[RawRecord], limit_s: float) -> Trial:
        world, decided = process.world, _first(records)
        await asyncio.sleep(world.random() * _TRIAL_S)
        if decided < len(records):
            await asyncio.sleep(limit_s if b"poison hangs" in (records[decided].value or b"") else 0.0)
            return Trial(decided, "simulated")
        first = (records[0].topic, records[0].partition, records[0].offset)
        if first not in failed and world.chance(_FAILS_SHARE):
            failed.add(first)
            return Trial(0, "a lock was held")
        return Trial(decided)

    return tried


def _first(records: Sequence[RawRecord]) -> int:
    return next((number for number, record in enumerate(records) if is_poison(record)), len(records))
