import time
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from haltline.cli.app import app
from haltline.schemas.topics import Topics
from haltline.streams.local.embedded_broker import FETCH_WAIT_MS
from haltline.streams.local.subprocesses import Children
from tests.mock_cluster import QuickBroker
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    uri = folder / "table"
    event = {
        "event_id": "e1", "kind": "action.proposed", "session_id": "s1", "time": time.time_ns() // 1_000_000,
        "action": "read_file",
    }  # fmt: skip
    with QuickBroker() as broker, Children(folder) as children:
        broker.ensure_topics(Topics())
        producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"})
        producer.produce(Topics().actions, key=b"s1", value=orjson.dumps(event))
        assert producer.flush(10) == 0
        sink = ["audit", "--bootstrap", broker.bootstrap, "--table", str(uri), "--flush", "0.2", "--metrics-port", "0"]
        children.start_module("audit", "haltline.cli", [*sink, "--fetch-wait-ms", str(FETCH_WAIT_MS)])
        wait_until(lambda: run("story", "s1", "--table", str(uri))[0] == 0, "the sink to write", deadline_s=60)
    return uri


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["audit", *arguments])
    return result.exit_code, result.output


def test_sql_is_answered_as_json_and_a_story_is_one_line_for_each_record(table: Path) -> None:
    code, output = run("query", "SELECT session_id, action FROM audit", "--table", str(table), "--json")
    assert (code, orjson.loads(output)) == (0, [{"session_id": "s1", "action": "read_file"}])
    code, output = run("story", "s1", "--table", str(table))
    assert (code, "action.proposed" in output, "1 row\n" in output) == (0, True, True)


def test_questions_without_an_answer_say_why(table: Path, tmp_path: Path) -> None:
    for arguments, of, expected, text in (
        (("story", "nobody"), table, 1, "'nobody'"),
        (("query", "SELECT nothing FROM audit"), table, 2, "nothing"),
        (("query", "SELECT 1"), tmp_path / "none", 2, "none"),
    ):
        code, output = run(*arguments, "--table", str(of))
        assert (code, text in output) == (expected, True), arguments
