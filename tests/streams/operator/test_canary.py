"""A session that must be killed, through a real worker. The alerts on what is said of it: tests/deploy."""

import orjson
from typer.testing import CliRunner

from haltline.cli.app import app
from haltline.cli.common import Exit
from haltline.schemas.decisions import Level
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.operator.client import Operator
from tests.interventions.agent.stand_in import StandIn


def test_it_is_killed_acknowledged_and_leaves_nothing_standing(system: str) -> None:
    before = Operator(system).standing()
    done = CliRunner().invoke(app, ["canary", "--json", "--within", "60s", "--bootstrap", system])
    assert done.exit_code == Exit.OK, done.output
    flight = orjson.loads(done.stdout)
    assert (flight["well"], flight["attempts"], flight["problem"]) == (True, 3, "")
    assert Operator(system).standing() == before


def test_of_workers_that_stop_nothing_it_says_so(embedded: EmbeddedBroker) -> None:
    with StandIn(embedded.bootstrap, lambda _: Level.ALLOW):
        done = CliRunner().invoke(app, ["canary", "--within", "60s", "--bootstrap", embedded.bootstrap])
    assert done.exit_code == Exit.NO
    assert "expected a kill within 10 identical deletes" in done.stderr
