"""The worker: sessions on the runtime."""

import gc
import time

from haltline.detectors.plugins import Stopwatch
from haltline.schemas.policy import Policy
from haltline.schemas.topics import Topics
from haltline.streams.core import Core
from haltline.streams.meter import SessionMeter
from haltline.streams.metrics import Metrics
from haltline.streams.outbox import Outbox
from haltline.streams.pipeline import Load
from haltline.streams.plugins import installed
from haltline.streams.runtime import run_worker
from haltline.streams.sessions import SessionPipeline
from haltline.streams.settings import WorkerSettings


def run(settings: WorkerSettings, topics: Topics, policy: Policy) -> int:
    """Runs one worker until it is told to stop. Returns the exit code: 0 after a clean stop.

    Raises:
        ValueError: the policy cannot be used.

    """
    # Events hold no cycles and are freed by their reference counts; the states of many sessions live long, and
    # each full collection walks all of them.
    gc.set_threshold(50_000, 20, 100)
    metrics = Metrics()
    overruns = metrics.children("detector_overruns_total")
    core = Core(policy, installed(Stopwatch(time.perf_counter_ns, tell=lambda detector, _: overruns[detector,].inc())))

    def sessions(load: Load, outbox: Outbox) -> SessionPipeline:
        return SessionPipeline(
            core,
            topics=topics,
            partitions=outbox.partitions(topics.actions),
            load=load,
            outbox=outbox,
            metrics=SessionMeter(metrics),
        )

    return run_worker(settings, sessions, metrics)
