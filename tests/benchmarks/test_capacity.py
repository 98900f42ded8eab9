"""The capacity plan of a fleet, from measured constants."""

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from benchmarks.__main__ import main
from benchmarks.reporting.capacity import (
    Demand,
    Limits,
    Prices,
    checks,
    constants,
    memory_bytes,
    partitions_for,
    plan,
    read_by_agents,
)
from tests.benchmarks.results import document, grown

KNOWN = constants(document())
DEMAND = Demand()


def test_partitions_keep_what_agents_read_in_bounds_and_a_plan_adds_up() -> None:
    few = Demand(agents=100)
    assert partitions_for(KNOWN, few, Limits(), workers=1) == 12
    assert partitions_for(KNOWN, few, Limits(), workers=5) == 24
    limits = Limits(read_by_agents_bytes_s=100e6)
    partitions = partitions_for(KNOWN, DEMAND, limits, workers=4)
    assert read_by_agents(KNOWN, DEMAND, partitions) <= 100e6
    assert read_by_agents(KNOWN, DEMAND, partitions - 12) > 100e6
    gateways = replace(DEMAND, sessions_per_process=DEMAND.agents // 2)
    assert partitions_for(KNOWN, gateways, limits, workers=4) == 12
    assert read_by_agents(KNOWN, gateways, 12) <= 100e6
    found = plan(KNOWN, DEMAND, Prices(), Limits())
    assert (found.workers, found.sinks, found.partitions) == (2, 1, 1344)
    assert found.brokers == 14  # 1,344 partitions of 13 topics, three times, 4,000 on each
    assert found.rows_per_s == 15_000
    assert found.changelog_bytes_per_s == 40_000_000
    assert found.worker_memory_bytes == memory_bytes(KNOWN, 200_000)
    day = 86_400
    kept = 10_000 * 350 * 7 * day + 10_000 * 300 * 30 * day + 2 * 400_000 * 4_000
    assert found.disk_bytes == pytest.approx(3 * kept)
    assert found.dollars["disk"] == pytest.approx(3 * kept / 1e9 * 0.08)
    assert found.dollars_a_month == pytest.approx(sum(found.dollars.values()))


def test_predictions_are_compared_with_measurements_that_are_no_constants() -> None:
    found = {(check.what, check.unit): check.ratio for check in checks(document())}
    assert found["2 workers, 1,000 sessions", "us/event"] == 1.0
    assert found["2 workers, 1,000 sessions", "MiB"] == pytest.approx(1.0)
    assert found["1 worker, 100,000 sessions", "MiB"] == pytest.approx(1.0)
    assert found["1 worker, 1,000 sessions", "events/s"] == 1.0


def test_the_command_takes_another_demand_and_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.json"
    file.write_bytes(orjson.dumps(document()))
    assert main(["capacity", str(file), "--agents", "20000", "--core-hour", "0.1"]) == 0
    out = capsys.readouterr().out
    assert "A plan for 20,000 agents" in out
    assert "measured / predicted" in out
    file = tmp_path / "results.json"
    file.write_bytes(orjson.dumps(document(growth=[grown(1_000)])))
    assert main(["capacity", str(file)]) == 2
    assert "expected growth of one worker" in capsys.readouterr().err
