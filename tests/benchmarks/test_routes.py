import asyncio
from pathlib import Path

from benchmarks import routes
from haltline.console.access.keys import Keys, Role, Who
from haltline.console.settings import ConsoleSettings
from haltline.schemas.record import EARLIEST_MS
from haltline.streams.local.embedded_broker import EmbeddedBroker


def test_every_route_that_is_measured_answers_and_finds_what_it_looks_for(
    embedded: EmbeddedBroker, tmp_path: Path
) -> None:
    database, now_ms = f"sqlite:///{tmp_path}/model.db", EARLIEST_MS + 10**12
    routes.fill(database, 40, now_ms)
    settings = ConsoleSettings(
        bootstrap=embedded.bootstrap, keys=Keys.of([(routes.KEY, Who("m", Role.ADMIN))]), database=database
    )
    requests = routes.requests(40, now_ms)
    costs = asyncio.run(routes.served(settings, requests, repeats=1, within_s=0.0))
    assert [cost.name for cost in costs if cost.status >= 400] == []
    assert len(costs) == len(requests)
