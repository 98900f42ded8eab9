"""`haltline status` with old events, as in a replay: the age of a stop is by the worker's clock."""

import re
import time

import pytest
from typer.testing import CliRunner

from haltline.cli.app import app
from haltline.cli.common import Exit
from haltline.schemas.control import ControlRecord, ControlState
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.topics import Topics
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.local.embedded_broker import EmbeddedBroker

LONG_AGO_MS = 1_750_000_000_000
HOUR_MS = 3_600_000


def kill(session: str, decided_at: int | None) -> ControlRecord:
    return ControlRecord(
        scope=ScopeKind.SESSION, id=session, state=ControlState.KILLED, code="session_killed_loop_guard",
        reason="loops", decision_id=f"d-{session}", since=LONG_AGO_MS, decided_at=decided_at,
    )  # fmt: skip


def shown(broker: EmbeddedBroker, *arguments: str) -> str:
    done = CliRunner().invoke(app, [*arguments, "--bootstrap", broker.bootstrap], env={"COLUMNS": "200"})
    assert done.exit_code in {Exit.OK, Exit.NO}, done.output
    return done.output


@pytest.mark.parametrize(
    ("decided_ago_ms", "age"),
    [
        pytest.param(3 * HOUR_MS, r"3 h 0 min ago", id="decided on history, three hours ago"),
        pytest.param(None, r"\d+ d ago", id="by an older release, which did not say when"),
    ],
)
def test_the_age_of_a_stop(embedded: EmbeddedBroker, decided_ago_ms: int | None, age: str) -> None:
    now_ms = time.time_ns() // 1_000_000
    record = kill("s1", None if decided_ago_ms is None else now_ms - decided_ago_ms)
    topic = Topics().control
    produce_confirmed(embedded.bootstrap, topic, key=record.key.encode(), value=record.to_json())
    (line,) = [line for line in shown(embedded, "status", "s1").splitlines() if "killed" in line]
    assert re.search(rf"killed +\S? ?{age}", line), line


def test_what_stands_longest_comes_first(embedded: EmbeddedBroker) -> None:
    now_ms = time.time_ns() // 1_000_000
    for record in (kill("newer", now_ms - HOUR_MS), kill("older", now_ms - 2 * HOUR_MS)):
        produce_confirmed(embedded.bootstrap, Topics().control, key=record.key.encode(), value=record.to_json())
    result = shown(embedded, "status")
    assert result.index("older") < result.index("newer")
