"""A real worker as its own process, for tests that need its answers; `system` of tests/conftest.py is one for all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from haltline.schemas.topics import Topics
from haltline.streams.local.subprocesses import Child, Children
from haltline.streams.local.system import start_worker, wait_until_ready
from tests.mock_cluster import QuickBroker


@contextmanager
def running_worker(bootstrap: str, logs: Path, *options: str) -> Iterator[Child]:
    """A worker of an embedded broker that is ready, until the end of the block."""
    with Children(logs) as children:
        worker = start_worker(children, bootstrap, "--checkpoint-interval", "0.2", *options, embedded=True)
        wait_until_ready(children, worker)
        yield worker


@contextmanager
def running_system(logs: Path) -> Iterator[str]:
    """An embedded broker with every topic and a worker; the broker's address."""
    with QuickBroker() as broker:
        broker.ensure_topics(Topics())
        with running_worker(broker.bootstrap, logs):
            yield broker.bootstrap
