"""A real worker as its own process, for tests that need its answers, and what runs in a thread.

`system` of tests/conftest.py is one worker for all.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from haltline.schemas.topics import Topics
from haltline.streams.local.subprocesses import Child, Children
from haltline.streams.local.system import start_worker, wait_until_ready
from tests.mock_cluster import QuickBroker

ASKING = """
rules:
  destructive_repeat:
    settings: {window_s: 3600}
    levels: {low: PAUSE, medium: PAUSE, high: PAUSE, critical: PAUSE}
  destructive_volume: {enabled: false}
  evasion: {enabled: false}
operations:
  approvals: {expires_s: 36000}
"""
"""A policy that asks before something is destroyed again."""


@contextmanager
def in_thread(run: Callable[[], object], stop: Callable[[], object]) -> Iterator[None]:
    """Runs this in a thread until the end of the block, which stops it; what it raises is raised there."""
    with ThreadPoolExecutor(1) as thread:
        ran = thread.submit(run)
        try:
            yield
        finally:
            stop()
            ran.result()


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
        # It lives until the last test: asking a third as often, both take half of the processor.
        with running_worker(broker.bootstrap, logs, "--fetch-wait-ms", "30"):
            yield broker.bootstrap


@contextmanager
def asking_system(folder: Path, *options: str) -> Iterator[tuple[str, Child]]:
    """An embedded broker and a worker with the policy `ASKING`; the broker's address, and the worker."""
    policy = folder / "policy.yaml"
    policy.write_text(ASKING)
    with QuickBroker() as broker:
        broker.ensure_topics(Topics())
        with running_worker(broker.bootstrap, folder, "--policy", str(policy), *options) as worker:
            yield broker.bootstrap, worker
