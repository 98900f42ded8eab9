"""A worker with a minimal pipeline: the number of records and the sum of their values, by key.

A record is JSON: {"n": 1}. The state of a key carries the offsets it includes, so each record
counts once; every tenth of a key is told on the topic of outputs, with an id that a repeated
record makes again.
"""

import argparse
import dataclasses
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import orjson

from haltline.streams.runtime.ports import Outbox
from haltline.streams.runtime.processor_api import Load, RawRecord
from haltline.streams.runtime.worker_process import run_worker
from haltline.streams.runtime.worker_settings import WorkerSettings


class _Nowhere:
    def send(self, topic: str, **_: object) -> None: ...

    def partitions(self, topic: str) -> int:
        raise NotImplementedError(topic)


class Counting:
    """Counts per key."""

    def __init__(self, load: Load, outbox: Outbox, *, output: str) -> None:
        self._load = load
        self._outbox = outbox
        self._output = output
        self._live: dict[bytes, dict[str, Any]] = {}
        self._partition: dict[bytes, int] = {}
        self._dirty: set[bytes] = set()

    def process(self, records: Sequence[RawRecord]) -> None:
        live = self._live
        dirty = self._dirty
        for record in records:
            key = record.key
            if key is None or record.value is None:
                raise ValueError(f"{record.topic}: expected a key and a value at offset {record.offset}, got none")
            state = live.get(key)
            if state is None:
                encoded = self._load(key)
                state = live[key] = orjson.loads(encoded) if encoded else {"count": 0, "sum": 0, "offsets": {}}
                self._partition[key] = record.partition
            offsets = state["offsets"]
            if record.offset <= offsets.get(record.topic, -1):
                continue
            offsets[record.topic] = record.offset
            n = orjson.loads(record.value)["n"]
            state["count"] += 1
            state["sum"] += n
            dirty.add(key)
            if state["count"] % 10 == 0:
                self._outbox.send(self._output, key=key, value=b"%s:%d" % (key, state["count"]))

    def rehearse(self, record: RawRecord) -> None:
        self._outbox = _Nowhere()
        self.process((record,))

    def pass_over(self, record: RawRecord, why: str) -> None:
        raise AssertionError(f"no record is bad, and one at offset {record.offset} was to be passed over: {why}")

    def changed(self) -> Iterator[tuple[int, bytes, bytes | None]]:
        dirty, self._dirty = self._dirty, set()
        for key in dirty:
            yield self._partition[key], key, orjson.dumps(self._live[key])

    def recovered(self, partition: int, states: Mapping[bytes, bytes]) -> None: ...

    def begin_anew(self, key: bytes, encoded: bytes) -> None:
        raise NotImplementedError(key, encoded)

    def tick(self) -> None: ...

    def idle_before_ms(self, partition: int) -> int:  # noqa: ARG002  # nothing is ever idle
        return 0

    def retain_when_idle(self, key: bytes, encoded: bytes) -> bool:
        raise AssertionError(f"nothing is idle, and was asked about {key!r}, {encoded!r}")

    def revoke(self, partitions: Collection[int]) -> None:
        for key in [key for key, partition in self._partition.items() if partition in partitions]:
            del self._partition[key], self._live[key]
            self._dirty.discard(key)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topics", required=True, help="separated by commas")
    parser.add_argument("--output", required=True)
    args, more = parser.parse_known_args(arguments)  # the others are settings of a worker by their names
    known = {field.name: str(field.type) for field in dataclasses.fields(WorkerSettings)}
    settings: dict[str, Any] = {}
    for option, value in zip(more[::2], more[1::2], strict=True):
        name = option.removeprefix("--").replace("-", "_")
        settings[name] = value if "str" in known[name] else orjson.loads(value)
    return run_worker(
        WorkerSettings(bootstrap=args.bootstrap, sources=tuple(args.topics.split(",")), **settings),
        lambda load, outbox: Counting(load, outbox, output=args.output),
    )


if __name__ == "__main__":
    sys.exit(main())
