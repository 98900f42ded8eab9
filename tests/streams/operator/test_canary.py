"""A session that must be killed, through a real worker. The alerts on what is said of it: tests/deploy."""

from pathlib import Path

import orjson
from typer.testing import CliRunner

from haltline.cli.app import app
from haltline.cli.common import Exit
from haltline.schemas.topics import Topics
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.operator.client import Operator
from tests.mock_cluster import QuickBroker
from tests.streams.running import running_worker


def test_it_is_killed_acknowledged_and_leaves_nothing_standing(system: str) -> None:
    before = Operator(system).standing()
    done = CliRunner().invoke(app, ["canary", "--json", "--within", "60s", "--bootstrap", system])
    assert done.exit_code == Exit.OK, done.output
    flight = orjson.loads(done.stdout)
    assert (flight["well"], flight["attempts"], flight["problem"]) == (True, 3, "")
    assert Operator(system).standing() == before


def test_without_a_loop_guard_it_says_so(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    off = "\n".join(f"  {rule}: {{enabled: false}}" for rule in ("destructive_repeat", "destructive_volume", "evasion"))
    policy.write_text(f"rules:\n{off}\n  respawn: {{enabled: false}}\n")
    with QuickBroker() as broker:
        broker.ensure_topics(Topics())
        with running_worker(broker.bootstrap, tmp_path, "--policy", str(policy)):
            done = CliRunner().invoke(app, ["canary", "--within", "60s", "--bootstrap", broker.bootstrap])
    assert done.exit_code == Exit.NO
    assert "expected a kill within 10 identical deletes" in done.stderr


def test_without_a_worker_it_fails(embedded: EmbeddedBroker) -> None:
    done = CliRunner().invoke(app, ["canary", "--json", "--within", "2s", "--bootstrap", embedded.bootstrap])
    assert (done.exit_code, orjson.loads(done.stdout)["killed"]) == (Exit.NO, False)
