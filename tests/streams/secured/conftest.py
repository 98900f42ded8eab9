from collections.abc import Iterator

import pytest

from tests.conftest import require_kafka
from tests.streams.secured.cluster import Cluster, running_cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A Kafka with TLS, passwords and an authorizer (some 8 s)."""
    require_kafka()
    with running_cluster(tmp_path_factory.mktemp("secured")) as made:
        yield made
