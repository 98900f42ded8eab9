"""Probes of a group of workers: it works when one event per partition has got its verdict."""

import time
from collections.abc import Sequence

from benchmarks.cluster import PARTITIONS, Sender, reader_from_end
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import Topics
from haltline.schemas.wire import decode
from haltline.streams.local.subprocesses import Child

_ANSWER_WITHIN_S = 300.0


class Probe:
    """Send the events. `label` is part of the sessions' ids, and must be unique for each probe of a topic."""

    def __init__(self, bootstrap: str, topics: Topics, label: str) -> None:
        self._topic = topics.interventions
        self._waiting = _ask(bootstrap, topics, label)
        self._answers = reader_from_end(bootstrap, self._topic, "verdict-probe")

    def wait(self, workers: Sequence[Child]) -> None:
        """Wait until every partition has answered. Raises ChildDied, or RuntimeError at the timeout."""
        deadline = time.perf_counter() + _ANSWER_WITHIN_S
        while self._waiting:
            for worker in workers:
                worker.require_running()
            if time.perf_counter() > deadline:
                raise RuntimeError(f"{self._topic}: expected verdicts in {_ANSWER_WITHIN_S:.0f} s, got not all")
            message = self._answers.poll(0.1)
            if message is not None and message.error() is None:
                self._waiting.discard(decode(Decision, message.value()).event_id)
        self._answers.close()


def _ask(bootstrap: str, topics: Topics, label: str) -> set[str]:
    """Produce one event that awaits a verdict to each partition; return the events' ids."""
    by_partition = {partition_of(name, PARTITIONS): name for name in (f"probe-{label}-{n}" for n in range(64))}
    sender = Sender(bootstrap, topics.actions)
    for session in by_partition.values():
        event = ActionEvent(
            event_id=f"{session}-event",
            kind=Kind.PROPOSED,
            session_id=session,
            time=time.time_ns() // 1_000_000,
            action="read_file",
            call_id=f"{session}-call",
            await_verdict=True,
        )
        sender.send(session, event.to_json())
    sender.finish()
    return {f"{session}-event" for session in by_partition.values()}
