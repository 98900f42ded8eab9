"""Brokers for the tests. Nothing starts before a test asks for it."""

import contextlib
import gc
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from haltline.interventions.agent.transport.local_decider import forget_kills
from haltline.schemas.topics import Topics
from haltline.streams.kafka.topics import create_topics
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.kafka_jars import fetch, missing_tools
from tests.mock_cluster import MockCluster, QuickBroker, running_clients
from tests.programs import missing
from tests.streams.running import running_system
from tests.waiting import wait_until

PARTITIONS = 4
ENDED_WITHIN_S = 20.0

# The same examples each time, or a change would be blamed for what chance found; `make explore` looks for new ones.
# A busy machine decides nothing: an example has no deadline. Forty of them show what a hundred do; properties of rarer
# things say how many they take.
hypothesis.settings.register_profile(
    "known",
    deadline=None,
    max_examples=40,
    stateful_step_count=30,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize=True,
)
hypothesis.settings.register_profile(
    "explore",
    hypothesis.settings.get_profile("known"),
    max_examples=200,
    stateful_step_count=60,
    derandomize=False,
    print_blob=True,
)
hypothesis.settings.load_profile("known")

# The brokers of tests live for seconds: Java's second compiler would cost more than it saves.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")

# Some hundreds of processes are started: without bytecode each of them would compile the whole product again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What runs beside an agent starts a local service, which outlives it: in a folder of this run, with which it ends.
_SERVICES = Path(tempfile.mkdtemp(prefix="hl", dir="/tmp"))
os.environ["HALTLINE_RUN_DIR"] = str(_SERVICES)

# A runner started in the background of a shell ignores Ctrl-C, and what it starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionfinish() -> None:
    for lock in _SERVICES.glob("*.lock"):
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(lock.read_text()), signal.SIGTERM)
    shutil.rmtree(_SERVICES, ignore_errors=True)


_LONGEST = "tests/streams/test_chaos.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses the real Kafka, so that `-m "not kafka"` leaves out all of it.

    The longest test comes first, or all the others wait for it at the end; then the modules that use the real Kafka,
    so that few of the processes start one.
    """
    for item in items:
        if "kafka" in getattr(item, "fixturenames", ()):
            item.add_marker("kafka")
    real = {item.path for item in items if item.get_closest_marker("kafka")}

    def order(item: pytest.Item) -> tuple[bool, bool]:
        return not item.nodeid.startswith(_LONGEST), item.path not in real

    items.sort(key=order)


def pytest_collection() -> None:
    """Python's collector finds nothing in the thousands of tests and modules that are made now and stay."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Nor does it look at them again with each collection of the run."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="module")
def no_client_outlives_its_module(request: pytest.FixtureRequest) -> Iterator[None]:
    """A client whose broker is gone looks for it for ever, and one day finds another test's broker at its port.

    What a module's fixtures hold comes and goes as it likes until then: a console makes some of its clients later.
    One that stays is a warning, not a failure: how long a client takes to end is no fact about the product.
    """
    before, failed = _clients(), request.session.testsfailed
    yield
    if _clients() <= before:
        return
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.getparent(pytest.Module) is request.node and item.funcargs:
            item.funcargs.clear()  # what fixtures gave

    def have_ended() -> bool:
        gc.collect()  # clients whose callbacks refer to their owners, some of which a thread holds a moment longer
        return _clients() <= before

    if have_ended() or request.session.testsfailed > failed:  # those of a failure are held until the end
        return
    try:
        wait_until(have_ended, "the Kafka clients of the module's tests have ended", deadline_s=ENDED_WITHIN_S)
    except AssertionError as late:
        known = [type(found).__name__ for found in gc.get_objects() if isinstance(found, Producer | Consumer)]
        threads = [thread.name for thread in threading.enumerate()]
        warnings.warn(f"{late}: {before} clients before, {_clients()} now; {known} in {threads}", stacklevel=1)


@pytest.fixture(autouse=True)
def own_state_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that one test stops is not stopped in another one of the same name, nor in the user's home."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state" / uuid.uuid4().hex))
    forget_kills()  # of tests before, in this process


_OF_ALL_TESTS: list[int] = []
"""How many clients the brokers have that live until the last test."""


def _clients() -> int:
    return running_clients() - sum(_OF_ALL_TESTS)


@pytest.fixture(autouse=True)
def no_exception_outlives_its_test(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """One that was logged holds its frames, and they the clients that they had."""
    yield
    caplog.get_records("call").clear()


@pytest.fixture
def embedded() -> Iterator[EmbeddedBroker]:
    """An embedded broker with every topic of the default prefix, whose groups begin at once."""
    with QuickBroker() as broker:
        broker.ensure_topics(Topics())
        yield broker


@pytest.fixture
def mock_cluster() -> Iterator[Callable[..., MockCluster]]:
    """Makes clusters of so many brokers, with switches for faults; see `tests/mock_cluster.py`."""
    clusters: list[MockCluster] = []

    def make(brokers: int = 1) -> MockCluster:
        clusters.append(MockCluster(brokers))
        return clusters[-1]

    yield make
    for cluster in clusters:
        cluster.close()


@pytest.fixture
def cluster(mock_cluster: Callable[..., MockCluster]) -> MockCluster:
    """One of one broker, with every topic of the default prefix."""
    made = mock_cluster()
    for topic in Topics().all:
        made.create_topic(topic)
    return made


@pytest.fixture(scope="session")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an embedded broker with every topic and a worker, for all tests that use ids of their own."""
    before = running_clients()
    with running_system(tmp_path_factory.mktemp("system")) as address:
        _OF_ALL_TESTS.append(running_clients() - before)
        yield address
    _OF_ALL_TESTS.pop()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """A real Kafka for the whole run (some 5 s)."""
    require_kafka()
    with LocalKafka(tmp_path_factory.mktemp("kafka"), jars=fetch()) as node:
        yield node


@pytest.fixture
def kafka_topics(kafka: LocalKafka) -> Iterator[Topics]:
    """Every topic, made with 4 partitions on the real Kafka under a prefix of this test's own."""
    topics = Topics(prefix=f"t{uuid.uuid4().hex[:8]}.")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap}, logger=logging.getLogger("tests.kafka"))
    changelogs = [changelog_of(topics), f"{topics.prefix.removesuffix('.')}-shadow-sessions-changelog"]
    create_topics(admin, topics, PARTITIONS, 1, changelogs=changelogs)
    yield topics
    for deleted in admin.delete_topics([*topics.all, *changelogs]).values():
        deleted.result()


def changelog_of(topics: Topics) -> str:
    """The changelog topic that `kafka_topics` makes: of a Faust app whose id is the prefix without the dot."""
    return f"{topics.prefix.removesuffix('.')}-sessions-changelog"


def require_kafka() -> None:
    """Skip the test where Kafka cannot run."""
    if tools := missing_tools():
        missing(f"the real Kafka needs {' and '.join(tools)}")
