from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, RowMapping, insert, select, update

from haltline.console.read_model import tables
from haltline.console.read_model.projection import take_in
from haltline.console.read_model.store import empty, open_store
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind, Task
from haltline.schemas.policy import Policy, Rule
from haltline.schemas.topics import Topics
from haltline.streams.audit.columns import Row
from haltline.streams.audit.reading import KafkaRecord, Reader
from haltline.streams.audit.records import records_of
from tests.console.databases import database
from tests.console.topics import Said, messages_of, rows
from tests.streams.engine.test_local_fleet import begins, delete, event, spends


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return open_store(database(tmp_path_factory.mktemp("console")))


def told(engine: Engine, taken: list[list[Row]]) -> dict[str, list[dict[str, Any]]]:
    empty(engine)
    for batch in taken:
        with engine.begin() as connection:
            take_in(connection, batch, "haltline.")
    with engine.connect() as connection:
        return {
            table.name: sorted((_fields(row) for row in connection.execute(select(table)).mappings()), key=str)
            for table in (
                tables.records,
                tables.sessions,
                tables.interventions,
                tables.tallies,
                tables.level_counts,
                tables.spent,
                tables.approvals,
                tables.control,
                tables.names,
            )
        }


def _fields(row: RowMapping) -> dict[str, Any]:
    """Without the number of its arrival."""
    return {name: value for name, value in row.items() if name != "n"}


def looping() -> list[Said]:
    goal = Task(goal="tidy up")
    return messages_of(
        [event(0, "a", Kind.SESSION_STARTED, task=goal), *(delete(n, "a") for n in range(1, 5)), begins(9, "b")]
    )


def paused() -> list[Said]:
    policy = Policy(rules={"destructive_repeat": Rule(levels={"high": Level.PAUSE, "critical": Level.PAUSE})})
    return messages_of([delete(n, "a") for n in range(1, 4)], policy)


def test_a_session_is_added_up_and_its_interventions_are_counted(engine: Engine) -> None:
    model_of = told(engine, [rows(looping())])
    (a, b) = model_of["sessions"]
    assert (a["session_id"], a["agent_id"], a["goal"], a["events"], a["hardest"], a["interventions"]) == (
        "a", "cleaner", "tidy up", 5, Level.KILL.rank, len(model_of["interventions"]),
    )  # fmt: skip
    assert (b["session_id"], b["events"], b["interventions"]) == ("b", 1, 0)
    assert [(row["key"], row["state"]) for row in model_of["control"]] == [("session:a", "killed")]


@pytest.mark.parametrize("make", [pytest.param(looping, id="a loop"), pytest.param(paused, id="an approval")])
@settings(max_examples=12)  # each makes the tables anew
@given(data=st.data())
def test_however_records_of_different_topics_come_and_how_often_the_model_is_the_same(
    engine: Engine, make: Any, data: st.DataObject
) -> None:
    every = rows(make())
    expected = told(engine, [rows(make())])
    # Each topic in its own order, the topics in any, each record once or twice, in batches of any size.
    by_topic = {topic: [row for row in every if row["topic"] == topic] for topic in {row["topic"] for row in every}}
    order = data.draw(st.permutations([row["topic"] for row in every]))
    mixed = [by_topic[topic].pop(0) for topic in order]
    cut = data.draw(st.integers(1, len(mixed)))
    batches = [mixed[n : n + cut] for n in range(0, len(mixed), cut)]
    assert told(engine, [*batches, mixed[:cut]]) == expected


def test_the_records_are_those_that_the_audit_makes_of_the_same_decisions(engine: Engine) -> None:
    records = looping()
    decisions = [record for _, _, record in records if isinstance(record, Decision)]
    proposals = {r.event_id: r for t, _, r in records if isinstance(r, ActionEvent) and r.kind is Kind.PROPOSED}
    expected = records_of(decisions, proposals, {"a": "tidy up"})
    model_of = told(engine, [rows(records)])
    assert sorted(row["body"] for row in model_of["interventions"]) == sorted(r.to_json().decode() for r in expected)


def test_costs_are_added_up_and_what_cannot_be_read_is_in_the_story(engine: Engine) -> None:
    made = rows(messages_of([spends(0, "a", 0.25), spends(1, "a", 0.5)]))
    broken = KafkaRecord("haltline.actions", 0, 99, 1_750_000_000_000, b"a", b"{no")
    made.append(Reader(Topics(), "console").row(broken, 0))
    model_of = told(engine, [made])
    assert [row["cost_usd"] for row in model_of["sessions"]] == [0.75]
    assert [row["kind"] for row in model_of["records"] if row["offset"] == 99] == ["unreadable"]


def test_a_database_of_another_version_is_recreated(tmp_path: Path) -> None:
    url = database(tmp_path)
    with open_store(url).begin() as connection:
        connection.execute(insert(tables.offsets).values(topic="actions", partition=0, next=7))
    with open_store(url).begin() as connection:
        assert connection.execute(select(tables.offsets.c.next)).scalars().all() == [7]
        connection.execute(update(tables.versions).values(version=tables.SCHEMA_VERSION + 1))
    with open_store(url).connect() as connection:
        assert connection.execute(select(tables.offsets)).all() == []


def test_a_database_in_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a file, as several threads use it, got sqlite://"):
        open_store("sqlite://")


def test_a_name_was_seen_last_at_its_latest_event_in_whichever_order_partitions_are_read(engine: Engine) -> None:
    early, late = (rows(messages_of([delete(n, "a")])) for n in (1, 4))
    late = [{**row, "partition": 1} for row in late]
    assert told(engine, [late, early])["names"] == told(engine, [early, late])["names"]
