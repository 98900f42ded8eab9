"""Text search finds all records that contain a text and no others, on SQLite and on PostgreSQL."""

import pytest
from sqlalchemy import Engine

from haltline.console.read_model import intervention_queries, tables, text_search
from haltline.console.read_model.intervention_queries import InterventionFilter, page
from haltline.console.read_model.store import clear, empty, put
from haltline.console.read_model.tallies import put_interventions
from haltline.console.routes.search import search
from haltline.schemas.intervention_records import InterventionRecord, RecordOutcome, RecordType, RiskLevel
from haltline.streams.history.intervention_rows import intervention_row
from haltline.streams.history.words import words_of

REASONS = (
    "3 deletes on asset_id=fact_sales in 12s",
    "3 deletes on asset_id=FACT_ORDERS in 12s",
    'the error "no such table" 100% of the time',
    "Änderung an der Tabelle",
    "under_score and back\\slash",
    "a nul \x00 in it",
    "'single' -- quotes; * AND NEAR(x)",
    "zz",
)


def record(number: int, reason: str) -> InterventionRecord:
    return InterventionRecord(
        id=f"int_{number:04d}", type=RecordType.HARD_BLOCK, outcome=RecordOutcome.BLOCKED, action_name="delete_asset",
        description="", reason=reason, agent_id="cleaner", run_id=f"night-{number}", policy_id="cycle",
        policy_name="default", risk_level=RiskLevel.HIGH, timestamp=1_767_225_600_000 + number,
    )  # fmt: skip


def keep(engine: Engine, *records: InterventionRecord, hidden: bool = False) -> None:
    rows = [intervention_row(one) | {"hidden": hidden} for one in records]
    with engine.begin() as connection:
        put_interventions(connection, rows)


def found(engine: Engine, text: str, **filters: str) -> list[str]:
    wanted = InterventionFilter(search=text, **filters)  # type: ignore[arg-type]  # texts only
    bodies = page(engine, wanted, 0, 50).bodies
    return [InterventionRecord.model_validate_json(body).id for body in bodies]


@pytest.fixture
def searched(engine: Engine) -> Engine:
    keep(engine, *(record(number, reason) for number, reason in enumerate(REASONS)))
    return engine


def test_what_contains_a_text_is_found(searched: Engine) -> None:
    for text, expected in (
        ("fact_sales", [0]),
        ("FACT_", [1, 0]),  # in either case, the newest first
        ("ct_ord", [1]),  # the middle of a word
        ('"no such', [2]),
        ("100%", [2]),
        ("r_s", [4]),
        ("k\\s", [4]),
        ("äNDerung", [3]),
        ("nul \x00 in", [5]),
        ("* AND NEAR(x)", [6]),  # what an index takes for its own syntax
        ("zz", [7]),
        ("int_0003", [3]),
        ("night-6", [6]),
        ("sales of", []),  # words that are not beside each other
    ):
        assert found(searched, text) == [f"int_{number:04d}" for number in expected], text
        assert found(searched, text, agent_id="cleaner") == found(searched, text)
        assert found(searched, text, agent_id="another") == []
        counted = intervention_queries.statistics(searched, InterventionFilter(search=text))
        assert counted["total_interventions"] == len(expected)


def test_what_was_changed_or_hidden_is_found_as_it_is_now(searched: Engine) -> None:
    keep(searched, record(0, "fact_returns"))
    assert (found(searched, "fact_sales"), found(searched, "fact_returns")) == ([], ["int_0000"])
    keep(searched, record(0, "fact_returns"), hidden=True)
    assert found(searched, "fact_returns") == []
    clear(searched)
    assert found(searched, "deletes") == []
    keep(searched, record(1, REASONS[1]))
    assert found(searched, "deletes") == ["int_0001"]


def test_many_matches_are_counted_up_to_a_number(searched: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervention_queries, "MOST_COUNTED", 3)
    for text, counted in (("delete_asset", (3, True)), ("deletes on", (2, False)), ("fact_sales", (1, False))):
        shown = page(searched, InterventionFilter(search=text), 0, 2)
        assert (shown.total, shown.more) == counted, text
    assert found(searched, "delete_asset")[:2] == ["int_0007", "int_0006"]
    narrow = InterventionFilter(search="delete_asset", agent_id="cleaner")
    assert page(searched, narrow, 0, 3).total == len(REASONS)


def test_everything_is_searched_and_the_whole_id_comes_first(searched: Engine) -> None:
    with searched.begin() as connection:
        known = [
            ("agent", "night-6"),
            ("agent", "night-watch"),
            ("target", "asset_id=night-6"),
            ("tool", "night_shift"),
        ]
        rows = [{"kind": kind, "name": name, "words": words_of(name)} for kind, name in known]
        put(connection, tables.names, [row | {"last_ms": at} for at, row in enumerate(rows)])
    groups = {of.kind: of for of in search(searched, "NIGHT-6", 5)}
    ids = {kind: [one.id for one in of.results] for kind, of in groups.items()}
    assert ids == {"agent": ["night-6"], "target": ["asset_id=night-6"], "intervention": ["int_0006"]}
    assert groups["target"].results[0].path == "/interventions?search=asset_id%3Dnight-6"
    (agents,) = (of for of in search(searched, "night-", 5) if of.kind == "agent")
    assert [one.id for one in agents.results] == ["night-watch", "night-6"]
    (few,) = search(searched, "delete_asset", 2)
    assert (len(few.results), few.more) == (2, True)


def test_without_the_extension_every_row_is_read(
    searched: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(text_search, "_EXTENSION", "no_such_extension")
    empty(searched)
    keep(searched, record(0, REASONS[0]))
    assert found(searched, "act_sal") == ["int_0000"]
    is_refused = "reads every row, as there is no no_such_extension" in caplog.text
    assert is_refused == (searched.dialect.name == "postgresql")
