"""What a fleet needs, from measured constants."""

from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.__main__ import main
from benchmarks.reporting import capacity
from benchmarks.reporting.capacity import (
    Demand,
    Limits,
    Prices,
    TooFewFigures,
    checks,
    constants,
    interpolated,
    memory_bytes,
    partitions_for,
    plan,
    read_by_agents,
    workers_for,
)
from tests.benchmarks.results import MIB, document, grown

KNOWN = constants(document())
DEMAND = Demand()


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(document(growth=[grown(1_000)]), id="one number of sessions only"),
        pytest.param(document() | {"sink": []}, id="no sink"),
        pytest.param(document(growth=[grown(1_000, workers=2), grown(10_000)]), id="no single worker"),
    ],
)
def test_too_few_figures_are_refused(found: dict[str, object]) -> None:
    with pytest.raises(TooFewFigures, match=r"expected growth of one worker with 1,000 and 10,000 sessions and a sink"):
        constants(found)


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        pytest.param(10, 100.0, id="before the first point: its value"),
        pytest.param(1_000, 100.0, id="at a point"),
        pytest.param(10_000, 150.0, id="half way by the logarithm"),
        pytest.param(100_000, 200.0, id="at the last point"),
        pytest.param(10**7, 200.0, id="beyond it: its value"),
    ],
)
def test_values_between_points(at: float, expected: float) -> None:
    assert interpolated([(100_000, 200.0), (1_000, 100.0)], at) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rate", "utilisation", "workers"),
    [
        pytest.param(1_000, 0.6, 1, id="a tenth of a core"),
        pytest.param(6_000, 0.6, 1, id="exactly one"),
        pytest.param(6_001, 0.6, 2, id="one event more"),
        pytest.param(60_000, 0.6, 10, id="ten times"),
        pytest.param(60_000, 1.0, 6, id="without any reserve"),
    ],
)
def test_workers_are_rate_times_processor_time_over_utilisation(rate: int, utilisation: float, workers: int) -> None:
    demand = Demand(agents=rate, events_per_agent_s=1.0, new_sessions_per_agent_day=0.0, utilisation=utilisation)
    assert workers_for(KNOWN, demand) == workers


def test_new_sessions_and_those_that_are_not_kept_as_objects_are_reckoned_too() -> None:
    quiet = Demand(agents=100_000, events_per_agent_s=0.0, new_sessions_per_agent_day=86.4)
    assert workers_for(KNOWN, quiet) == 1  # 100 a second, 200 us each: a fiftieth of a core
    assert workers_for(KNOWN, replace(quiet, new_sessions_per_agent_day=86_400.0)) == 34
    live = memory_bytes(KNOWN, capacity.LIVE_SESSIONS)
    assert live == 150 * MIB + 200_000 * 20_000
    assert memory_bytes(KNOWN, capacity.LIVE_SESSIONS + 1_000) == live + 1_000 * 6_000


def test_partitions_are_three_for_each_worker_or_as_many_as_keep_what_agents_read_in_bounds() -> None:
    few = Demand(agents=100)
    assert partitions_for(KNOWN, few, Limits(), workers=1) == 12
    assert partitions_for(KNOWN, few, Limits(), workers=5) == 24
    limits = Limits(read_by_agents_bytes_s=100e6)
    partitions = partitions_for(KNOWN, DEMAND, limits, workers=4)
    assert read_by_agents(KNOWN, DEMAND, partitions) <= 100e6
    assert read_by_agents(KNOWN, DEMAND, partitions - 12) > 100e6


def test_a_plan_adds_up() -> None:
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


@given(st.integers(1, 1_000_000), st.integers(2, 10))
def test_more_agents_never_need_less(agents: int, times: int) -> None:
    one, other = (plan(KNOWN, Demand(agents=number), Prices(), Limits()) for number in (agents, agents * times))
    for name in ("workers", "sinks", "brokers", "partitions", "disk_bytes", "audit_bytes", "dollars_a_month"):
        assert getattr(one, name) <= getattr(other, name)


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
