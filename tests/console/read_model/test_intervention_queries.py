"""Queries about interventions, compared with the same queries over a list."""

import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, func, select

from haltline.console.read_model import intervention_queries, tables
from haltline.console.read_model.intervention_queries import InterventionFilter
from haltline.console.read_model.store import open_store
from haltline.console.read_model.tallies import MS_PER_DAY, put_interventions
from haltline.schemas.intervention_records import InterventionRecord, RecordOutcome, RecordType, RiskLevel
from haltline.streams.history.intervention_rows import intervention_row
from tests.console.counted_records import statistics
from tests.console.databases import database

FIRST_MS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
DAYS = 4


def record(number: int, time_ms: int, rng: random.Random) -> InterventionRecord:
    rule = rng.choice(("cycle", "destructive_repeat", "budget"))
    return InterventionRecord(
        id=f"int_{number}",
        type=rng.choice(list(RecordType)),
        outcome=rng.choice(list(RecordOutcome)),
        action_name=rng.choice(("delete_asset", "send_mail", "")),
        description="d",
        reason="r",
        agent_id=rng.choice(("a", "b")),
        run_id=f"r{number % 9}",
        policy_id=rule,
        policy_name=rule,
        risk_level=rng.choice(list(RiskLevel)),
        estimated_cost_usd=1.0,
        cost_prevented_usd=rng.randrange(4) / 4,
        attempt=1,
        context=rng.choice(({"level": "NUDGE"}, {"level": "KILL"}, {"level": "of another guard"}, {})),
        timestamp=time_ms,
        created_at=time_ms,
    )


def level_of(one: InterventionRecord) -> str:
    level = one.context.get("level")
    return str(level) if level in ("NUDGE", "KILL") else ""


def made() -> list[InterventionRecord]:
    """At any time of some days, and on the first and the last millisecond of each."""
    rng = random.Random(7)
    edges = [FIRST_MS + day * MS_PER_DAY + at for day in range(DAYS) for at in (0, MS_PER_DAY - 1)]
    times = [*edges, *(FIRST_MS + rng.randrange(DAYS * MS_PER_DAY) for _ in range(150))]
    return [record(number, time_ms, rng) for number, time_ms in enumerate(times)]


def keep(engine: Engine, records: Sequence[InterventionRecord], *, hidden: bool = False) -> None:
    with engine.begin() as connection:
        put_interventions(connection, [intervention_row(one) | {"hidden": hidden} for one in records])


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    engine = open_store(database(tmp_path_factory.mktemp("queries")))
    keep(engine, made())
    return engine


MOMENTS = st.one_of(
    st.none(),
    st.builds(
        lambda day, off: FIRST_MS + day * MS_PER_DAY + off,
        st.integers(-1, DAYS),
        st.sampled_from((-1, 0, 1, 40_000_000)),
    ),
)
WANTED = st.builds(
    InterventionFilter,
    type=st.none() | st.sampled_from(list(RecordType)),
    outcome=st.none() | st.sampled_from(list(RecordOutcome)),
    policy_id=st.sampled_from((None, "cycle")),
    agent_id=st.sampled_from((None, None, "a", "")),
    start_ms=MOMENTS,
    end_ms=MOMENTS,
    trips_only=st.booleans(),
    high_risk=st.booleans(),
)


def held(expected: InterventionFilter, one: InterventionRecord) -> bool:
    equal = {"type": one.type, "outcome": one.outcome, "policy_id": one.policy_id, "agent_id": one.agent_id}
    high = one.risk_level in (RiskLevel.HIGH, RiskLevel.CRITICAL) and one.outcome is RecordOutcome.BLOCKED
    return (
        all(getattr(expected, name) in (None, value) for name, value in equal.items())
        and (expected.start_ms is None or one.timestamp >= expected.start_ms)
        and (expected.end_ms is None or one.timestamp <= expected.end_ms)
        and not (expected.trips_only and one.outcome is RecordOutcome.WARNED)
        and (high or not expected.high_risk)
    )


@settings(max_examples=30)
@given(filters=WANTED)
def test_counts_by_day_and_what_is_counted_now_say_the_same_for_any_filter(
    filled: Engine, filters: InterventionFilter
) -> None:
    expected = [one for one in made() if held(filters, one)]
    result, of_list = intervention_queries.statistics(filled, filters), statistics(expected)
    # Of as many, a list keeps the order in which they came; the store has one of its own.
    for top, name in (("top_blocked_actions", "action_name"), ("top_triggering_policies", "policy_id")):
        of_list[top].sort(key=lambda one, name=name: (-one["count"], one[name]))
    assert result == of_list
    broken = intervention_queries.breakdown(filled, filters)
    days = Counter(
        (datetime.fromtimestamp(one.timestamp / 1000, UTC).date().isoformat(), level_of(one)) for one in expected
    )
    assert days == {(day["date"], level): count for day in broken["by_day"] for level, count in day["levels"].items()}
    agents = Counter((one.agent_id, level_of(one)) for one in expected)
    of_agents = broken["by_agent"]
    assert agents == {(of["agent_id"], level): n for of in of_agents for level, n in of["levels"].items()}
    assert [of["count"] for of in of_agents] == sorted((of["count"] for of in of_agents), reverse=True)
    page = intervention_queries.page(filled, filters, 1, 5)
    bodies, total = page.bodies, page.total
    newest = sorted(expected, key=lambda one: (-one.timestamp, one.id))
    assert (total, bodies) == (len(expected), [one.to_json().decode() for one in newest[1:6]])


def test_what_is_hidden_or_recreated_is_counted_as_it_is_now(tmp_path: Path) -> None:
    other = open_store(database(tmp_path))
    records = made()[:20]
    keep(other, records)
    keep(other, records[:5], hidden=True)
    keep(other, records[:1], hidden=True)
    changed = [one.model_copy(update={"outcome": RecordOutcome.BLOCKED}) for one in records[5:10]]
    keep(other, changed)
    keep(other, changed)
    now = [*changed, *records[10:]]
    assert intervention_queries.statistics(other, InterventionFilter())["by_outcome"] == statistics(now)["by_outcome"]
    assert intervention_queries.page(other, InterventionFilter(), 0, 1).total == len(now)
    keep(other, records, hidden=True)
    with other.connect() as connection:
        assert connection.execute(select(func.count()).select_from(tables.tallies)).scalar_one() == 0
    other.dispose()
