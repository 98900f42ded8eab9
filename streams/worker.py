"""The worker: the pipeline on the runtime."""

from haltline.streams.runtime import run_worker
from haltline.streams.settings import WorkerSettings

from haltline.schemas.policy import Policy
from haltline.schemas.topics import Topics
from haltline.streams.core import Core
from haltline.streams.pipeline import SessionPipeline


def run(settings: WorkerSettings, topics: Topics, policy: Policy) -> int:
    """Runs one worker until it is told to stop. Returns the exit code: 0 after a clean stop.

    Raises:
        ValueError: the policy cannot be used.

    """
    core = Core(policy)
    return run_worker(
        settings,
        lambda load, outbox, partitions, metrics: SessionPipeline(
            core, topics=topics, partitions=partitions, load=load, outbox=outbox, metrics=metrics
        ),
    )
