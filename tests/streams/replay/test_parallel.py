"""Partitions that are shared out among processes come to what one process comes to."""

from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from haltline.cli.app import app
from haltline.streams.replay.parallel import shares
from haltline.streams.replay.records import Span
from tests.mock_cluster import QuickBroker
from tests.streams.replay.recorded import TOPICS, LiveLog, deletes, works
from tests.streams.replay.test_kafka_range import put


@pytest.fixture(scope="module")
def log() -> LiveLog:
    sessions = [deletes(f"s{number}", *range(number, 40, 11), agent=f"agent-{number % 2}") for number in range(8)]
    sessions += [works(f"w{number}", 5, begin=number) for number in range(8)]
    return LiveLog().events(sorted((one for session in sessions for one in session), key=lambda one: one.time))


def replayed(*arguments: object) -> tuple[int, dict[str, object]]:
    done = CliRunner().invoke(app, ["replay", *map(str, arguments), "--json"])
    document = orjson.loads(done.stdout)
    del document["source"]
    return done.exit_code, document


@pytest.mark.parametrize("policy", ["", "rules: {destructive_repeat: {levels: {low: PAUSE}}}"], ids=["same", "other"])
def test_several_processes_say_what_one_says_of_the_audit_table(log: LiveLog, policy: str, tmp_path: Path) -> None:
    table = log.audited(tmp_path / "audit")
    (tmp_path / "other.yaml").write_text(policy)
    options = ("--policy", tmp_path / "other.yaml") if policy else ("--exact",)
    alone, shared = replayed(table, *options), replayed(table, *options, "--processes", 3)
    assert alone == shared
    assert alone[0] == (1 if policy else 0)
    assert int(str(alone[1]["recorded"])) > 8
    for file in table.rglob("*.parquet"):
        file.unlink()
    done = CliRunner().invoke(app, ["replay", str(table), "--processes", "2"])
    assert (done.exit_code, "haltline: audit query" in done.output) == (2, True), "what a process cannot do is reported"


def test_several_processes_say_what_one_says_of_a_broker(log: LiveLog) -> None:
    with QuickBroker() as broker:
        broker.ensure_topics(TOPICS)
        put(broker.bootstrap, log)
        options = ("kafka", "--bootstrap", broker.bootstrap, "--tool", "delete_asset")
        assert replayed(*options) == replayed(*options, "--processes", 2)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12), st.integers(1, 6))
def test_every_partition_is_in_one_share_and_no_share_is_empty(counts: list[int], processes: int) -> None:
    spans = [Span(topic, number, 0, count) for topic in ("a", "b") for number, count in enumerate(counts)]
    found = shares(spans, processes)
    placed = [span for share in found for span in share]
    assert {span for span in spans if span.count} <= set(placed)
    assert len(placed) == len(set(placed))
    assert len(found) <= processes
    assert all(any(span.count for span in share) for share in found)
    assert all(len({n for n, share in enumerate(found) if s in share}) == 1 for s in placed)
