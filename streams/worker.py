"""The worker: a session processor on the runtime."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from haltline.detectors.framework.plugins import Plugins, Stopwatch
from haltline.schemas.seals import Sealer
from haltline.schemas.topics import Topics
from haltline.streams.engine.plugins import installed
from haltline.streams.policy.source import PolicySource
from haltline.streams.runtime.metrics import Metrics
from haltline.streams.runtime.ports import Outbox, Sender
from haltline.streams.runtime.processor_api import Load
from haltline.streams.runtime.worker_process import run_worker
from haltline.streams.runtime.worker_settings import WorkerSettings
from haltline.streams.sessions.processor import SessionProcessor
from haltline.streams.sessions.session_metrics import SessionMetrics


def run(
    settings: WorkerSettings,
    topics: Topics,
    follow: Callable[[Plugins], PolicySource],
    *,
    sealing_key: Path | None = None,
) -> int:
    """Run one worker until SIGTERM or SIGINT. Returns the exit code: 0 after a clean stop.

    `follow` starts following the policy, and raises if that is impossible. With `sealing_key`, the file of a private
    key, decisions are signed, so that agents can verify that they come from this worker.

    Raises:
        ValueError: the policy cannot be used.

    """
    metrics = Metrics(settings.runs.component)
    overruns = metrics.children("detector_overruns_total")
    stopwatch = Stopwatch(time.perf_counter_ns, tell=lambda detector, _: overruns[detector,].inc())
    policies = follow(installed(stopwatch))

    def sessions(load: Load, outbox: Outbox) -> SessionProcessor:
        sender: Sender = outbox if sealing_key is None else SigningProducer(outbox, sealing_key, topics)
        return SessionProcessor(
            policies.core,
            topics=topics,
            partitions=outbox.partitions(topics.actions),
            load=load,
            outbox=sender,
            metrics=SessionMetrics(metrics),
            policies=policies.take,
            changelog=settings.changelog,
        )

    try:
        return run_worker(settings, sessions, metrics)
    finally:
        policies.close()


class SigningProducer:
    """A Sender that signs decisions and entries of the control topic with a private key, and passes every record on."""

    def __init__(self, sender: Sender, key: Path, topics: Topics) -> None:
        """Raises BadKey (a ValueError) when the file is not such a key, and OSError when it cannot be read."""
        self._sender = sender
        self._sealer = Sealer(key)
        self._sealed = {topics.interventions, topics.control}

    def send(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> None:
        """Send one record, signed if its topic requires it."""
        if topic in self._sealed:
            headers = [*headers, self._sealer.seal(topic, key, value, time.time_ns() // 1_000_000)]
        self._sender.send(topic, key=key, value=value, headers=headers)
