from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine

from haltline.console.access.keys import Role
from haltline.console.read_model.store import open_store
from tests.console.databases import ON_POSTGRESQL, database, server
from tests.console.serving import bearer, console_in


@pytest.fixture(scope="session", autouse=True)
def postgresql_for_all() -> Iterator[None]:
    """With HALTLINE_TEST_DATABASE=postgresql, the server on which every console of the tests keeps its read model."""
    if not ON_POSTGRESQL:
        yield
        return
    with server():
        yield


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A console for all tests of a module: each leaves what it has written to the next ones."""
    with console_in(tmp_path_factory.mktemp("console")) as client:
        yield client


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """An empty database for the read model."""
    engine = open_store(database(tmp_path))
    yield engine
    engine.dispose()


@pytest.fixture
def client(console: TestClient) -> TestClient:
    """An admin's client of it, without cookies."""
    console.headers.update(bearer(Role.ADMIN))
    console.cookies.clear()
    return console


@pytest.fixture
def browser(client: TestClient) -> Iterator[TestClient]:
    """A client without a key, which follows no redirection by itself."""
    base = client.base_url
    client.headers.pop("Authorization")
    client.follow_redirects = False
    yield client
    client.follow_redirects, client.base_url = True, base
