from collections.abc import Iterator
from pathlib import Path

import pytest

from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.mock_cluster import QuickBroker
from tests.streams.replay.recorded import TOPICS, LiveLog, a_night, put


@pytest.fixture(scope="session")
def night() -> LiveLog:
    """A log that is only read."""
    return a_night()


@pytest.fixture
def broker(night: LiveLog) -> Iterator[EmbeddedBroker]:
    """One that has the night and an empty topic, lab; of this test alone."""
    with QuickBroker() as broker:
        broker.ensure_topics(TOPICS)
        broker.ensure_topic("lab")
        put(broker.bootstrap, night)
        yield broker


@pytest.fixture(scope="session")
def table(night: LiveLog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The audit of the night, which is only read."""
    return night.audited(tmp_path_factory.mktemp("night") / "audit")
