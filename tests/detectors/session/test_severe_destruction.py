from haltline.detectors.session.severe_destruction import SevereDestruction
from haltline.schemas.control import Batch
from haltline.schemas.events import ActionEvent, Outcome
from tests.builders import Events, at, call, cases, each, event, findings, severities

DETECTOR = SevereDestruction()


def sql(statement: str) -> ActionEvent:
    return event(0, "execute_sql", args={"query": statement})


@cases(
    "events, named",
    {
        "a database": ([event(0, "drop_database", "database=sales")], ["drop_database of database=sales"]),
        "a table in production": ([sql("DROP TABLE prod.orders")], ["drop_table of table=prod.orders"]),
        "backups, on each attempt": (
            [event(0, "delete_asset", f"path=/srv/backups/{day}") for day in range(2)],
            ["delete_asset of path=/srv/backups/0", "delete_asset of path=/srv/backups/1"],
        ),
        "one asset among many": ([event(0, "delete_asset", "asset_id=fact_sales")], []),
        "a database for tests": ([event(0, "drop_database", "database=test_sales")], []),
        "reading in production": ([sql("SELECT * FROM prod.orders")], []),
        "on the proposal, not again on the result": (
            [call(0, "drop_database", "database=sales")],
            ["drop_database of database=sales"],
        ),
        "refused already": ([event(0, "drop_database", "database=sales", outcome=Outcome.REFUSED)], []),
        "many at once are named in part": (
            [event(0, "delete_buckets", args={"bucket": [f"prod-{i}" for i in range(5)]})],
            [", ".join(f"delete_buckets of bucket=prod-{i}" for i in range(3)) + " and 2 more"],
        ),
    },
)
def test_fires(events: Events, named: list[str]) -> None:
    expected = [f"a single call would destroy critical data or systems: {what}" for what in named]
    assert [finding.reason for _, finding in findings(DETECTOR, events)] == expected


def test_the_first_is_high_and_each_further_one_critical() -> None:
    assert severities(DETECTOR, each(3, event, "drop_database", "database=sales")) == "hcc"


@cases(
    "targets, found",
    {"a batch that names it": (["database=sales"], 0), "a batch of anything does not cover a catastrophe": ([], 1)},
)
def test_a_declared_batch(targets: list[str], found: int) -> None:
    batch = Batch(targets=targets, max_deletes=100, expires=at(3600))
    assert len(findings(DETECTOR, [event(0, "drop_database", "database=sales")], batch=batch)) == found
