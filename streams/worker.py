"""The worker: sessions on the runtime."""

import gc
import time
from collections.abc import Callable
from pathlib import Path

from haltline.detectors.plugins import Plugins, Stopwatch
from haltline.schemas.topics import Topics
from haltline.streams.meter import SessionMeter
from haltline.streams.metrics import Metrics
from haltline.streams.outbox import Outbox
from haltline.streams.pipeline import Load
from haltline.streams.plugins import installed
from haltline.streams.policies import PolicySource
from haltline.streams.runtime import run_worker
from haltline.streams.sealing import SealingSender
from haltline.streams.sessions import SessionPipeline
from haltline.streams.settings import WorkerSettings


def run(
    settings: WorkerSettings,
    topics: Topics,
    follow: Callable[[Plugins], PolicySource],
    *,
    sealing_key: Path | None = None,
) -> int:
    """Runs one worker until it is told to stop. Returns the exit code: 0 after a clean stop.

    `follow` begins to follow the policy, and raises what it cannot begin with. With `sealing_key`, the file of a
    private key, agents can check that decisions are this worker's.

    Raises:
        ValueError: the policy cannot be used.

    """
    # Events and states hold no cycles and are freed by their reference counts. States live long, and a full
    # collection walks all of them: it comes once in some hundred million events, not with every quarter more states.
    # The others walk what is new, some milliseconds at a time.
    gc.set_threshold(10_000, 10, 5000)
    metrics = Metrics("worker")
    overruns = metrics.children("detector_overruns_total")
    stopwatch = Stopwatch(time.perf_counter_ns, tell=lambda detector, _: overruns[detector,].inc())
    policies = follow(installed(stopwatch))

    def sessions(load: Load, outbox: Outbox) -> SessionPipeline:
        return SessionPipeline(
            policies.core,
            topics=topics,
            partitions=outbox.partitions(topics.actions),
            load=load,
            outbox=outbox if sealing_key is None else SealingSender(outbox, sealing_key, topics),
            metrics=SessionMeter(metrics),
            policies=policies.take,
            changelog=settings.changelog,
        )

    try:
        return run_worker(settings, sessions, metrics)
    finally:
        policies.close()
