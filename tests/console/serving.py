"""A console for tests of its API on an embedded broker, and the records on its topics."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from haltline.console.access.keys import Keys, Role, Who
from haltline.console.app import create_app
from haltline.console.context import Context
from haltline.console.settings import ConsoleSettings
from haltline.schemas.topics import Topics
from tests.console.databases import database as a_database
from tests.console.topics import Said, produce
from tests.mock_cluster import QuickBroker
from tests.streams.engine.test_groups import delete

KEYS = {role: f"hl_{role}" for role in Role}
LOOP = [delete(n, "a") for n in range(1, 5)]


def serving(bootstrap: str, folder: Path, **options: Any) -> TestClient:
    keys = Keys.of((key, Who(f"{role} ada", role)) for role, key in KEYS.items())
    settings = ConsoleSettings(
        bootstrap=bootstrap, keys=keys, database=a_database(folder), **{"answer_within_s": 0.2} | options
    )
    return TestClient(create_app(settings), headers=bearer(Role.ADMIN))


@contextmanager
def console_in(folder: Path, **options: Any) -> Iterator[TestClient]:
    """A console, by an admin's client, on a broker of its own with its topics."""
    with QuickBroker() as broker:
        broker.ensure_topics(Topics())
        with serving(broker.bootstrap, folder, **options) as client:
            yield client


def bearer(role: Role) -> dict[str, str]:
    return {"Authorization": f"Bearer {KEYS[role]}"}


def context(client: TestClient) -> Context:
    """Of a console that is served."""
    found: Context = client.app.state.context  # type: ignore[attr-defined]  # Starlette's, typed as any callable
    return found


def tell(client: TestClient, records: Iterable[Said]) -> None:
    """Puts them on the topics, and returns when the read model has them."""
    for place in produce(context(client).settings.bootstrap, records):
        assert context(client).feeder.wait_for(place, 60)
