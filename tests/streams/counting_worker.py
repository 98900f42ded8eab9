"""A worker with the smallest pipeline: per key, how many records and the sum of what they hold.

A record is JSON: {"n": 1}. The state of a key carries the offsets it includes, so each record
counts once; every tenth (or `--tell-every`) of a key is told on the topic of outputs, with an id that a repeated
record makes again.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import orjson

from haltline.streams.runtime import worker_process
from haltline.streams.runtime.worker_process import ConfirmedProducer, Load, RawRecord, WorkerSettings, run_worker


class Counting:
    """Counts per key. `fail_on` and `hang_on` are values of n that raise, or never end, as faults would."""

    def __init__(
        self,
        load: Load,
        outbox: ConfirmedProducer,
        *,
        output: str,
        tell_every: int = 10,
        fail_on: int | None = None,
        hang_on: int | None = None,
    ) -> None:
        self._load = load
        self._outbox = outbox
        self._output = output
        self._tell_every = tell_every
        self._fail_on = fail_on
        self._hang_on = hang_on
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
            if n == self._fail_on:
                raise RuntimeError(f"asked to fail on {n}")
            while n == self._hang_on:
                time.sleep(0.1)
            state["count"] += 1
            state["sum"] += n
            dirty.add(key)
            if state["count"] % self._tell_every == 0:
                self._outbox.send(
                    self._output,
                    key=key,
                    value=b"%s:%d" % (key, state["count"]),
                    headers=(("sent-ms", str(record.timestamp).encode()),),
                )

    def changed(self) -> Iterator[tuple[int, bytes, bytes | None]]:
        dirty, self._dirty = self._dirty, set()
        for key in dirty:
            yield self._partition[key], key, orjson.dumps(self._live[key])

    def recovered(self, partition: int, states: Mapping[bytes, bytes]) -> None: ...

    def forget(self, key: bytes, encoded: bytes, ends: Mapping[str, int]) -> bytes:
        assert key
        state = orjson.loads(encoded)
        state["offsets"] = {
            topic: offset for topic, offset in state["offsets"].items() if offset < ends.get(topic, offset + 1)
        }
        return orjson.dumps(state)

    def tick(self) -> None: ...

    def idle_before_ms(self, partition: int) -> int:  # noqa: ARG002  # nothing is ever idle
        return 0

    def retain_when_idle(self, key: bytes, encoded: bytes) -> bool:
        raise AssertionError(f"nothing is idle, and was asked about {key!r}, {encoded!r}")

    def revoke(self, partitions: Collection[int]) -> None:
        for key in [key for key, partition in self._partition.items() if partition in partitions]:
            del self._partition[key], self._live[key]
            self._dirty.discard(key)


def hold_assignments(there: Path) -> None:
    """Each new assignment waits while this file is there; the group hears nothing of the member meanwhile."""
    on_assigned = worker_process.Worker.on_assigned

    async def held(worker: Any, assigned: Set[tuple[str, int]], generation: int) -> None:
        while there.exists():
            await asyncio.sleep(0.05)
        await on_assigned(worker, assigned, generation)

    worker_process.Worker.on_assigned = held  # type: ignore[assignment,method-assign]  # a fault that no setting makes


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topics", required=True, help="separated by commas")
    parser.add_argument("--output", required=True)
    parser.add_argument("--group", default="counting")
    parser.add_argument("--instance-id")
    parser.add_argument("--fetch-wait-ms", type=int, default=500)
    parser.add_argument("--session-timeout-s", type=float, default=10.0)
    parser.add_argument("--stood-still-s", type=float)
    parser.add_argument("--delivery-timeout-s", type=float, default=30.0)
    parser.add_argument("--recovery-stuck-after-s", type=float, default=60.0)
    parser.add_argument("--stuck-after-s", type=float, default=60.0)
    parser.add_argument("--metrics-port", type=int)
    parser.add_argument("--standby-replicas", type=int, default=0)
    parser.add_argument("--max-poll-records", type=int, default=1000)
    parser.add_argument("--tell-every", type=int, default=10)
    parser.add_argument("--fail-on", type=int, help="a value of n")
    parser.add_argument("--hang-on", type=int, help="a value of n")
    parser.add_argument("--checkpoint-interval-s", type=float, default=1.0)
    parser.add_argument("--watermark-interval-s", type=float, default=5.0)
    parser.add_argument("--hold-assignments", type=Path, help="while this file is there")
    args = parser.parse_args(arguments)
    if args.hold_assignments is not None:
        hold_assignments(args.hold_assignments)
    settings = WorkerSettings(
        bootstrap=args.bootstrap,
        sources=tuple(args.topics.split(",")),
        group=args.group,
        instance_id=args.instance_id,
        fetch_wait_ms=args.fetch_wait_ms,
        session_timeout_s=args.session_timeout_s,
        stood_still_s=args.stood_still_s,
        delivery_timeout_s=args.delivery_timeout_s,
        recovery_stuck_after_s=args.recovery_stuck_after_s,
        stuck_after_s=args.stuck_after_s,
        metrics_port=args.metrics_port,
        standby_replicas=args.standby_replicas,
        max_poll_records=args.max_poll_records,
        checkpoint_interval_s=args.checkpoint_interval_s,
        watermark_interval_s=args.watermark_interval_s,
    )
    return run_worker(
        settings,
        lambda load, outbox: Counting(
            load,
            outbox,
            output=args.output,
            tell_every=args.tell_every,
            fail_on=args.fail_on,
            hang_on=args.hang_on,
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
