from collections.abc import Iterator

import pytest

from tests.console.databases import ON_POSTGRESQL, server


@pytest.fixture(scope="session", autouse=True)
def postgresql_for_all() -> Iterator[None]:
    """With HALTLINE_TEST_DATABASE=postgresql, the server on which every console of the tests keeps its read model."""
    if not ON_POSTGRESQL:
        yield
        return
    with server():
        yield
