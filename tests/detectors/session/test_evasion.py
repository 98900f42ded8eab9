from typing import Any

from haltline.detectors.session.evasion import Evasion
from haltline.schemas.control import Batch
from haltline.schemas.events import ActionEvent, Outcome
from tests.builders import at, bash, call, cases, each, event, fires_at, severities

DETECTOR = Evasion()
TABLE = "table=fact_sales"
NO = "refused by policy: not approved"


def refused(second: float, action: str = "delete_table", target: str = TABLE, **fields: Any) -> ActionEvent:
    return event(second, action, target, NO, outcome=Outcome.REFUSED, **fields)


def sql(second: float, statement: str, error: str | None = NO) -> ActionEvent:
    outcome = Outcome.REFUSED if error == NO else Outcome.ERROR if error else Outcome.OK
    return event(second, "execute_sql", None, error, args={"query": statement}, outcome=outcome)


@cases(
    "events, found",
    {
        "another tool is high": ([refused(0), refused(5, "drop_table")], "h"),
        "a third one and more are critical": (
            [
                refused(0),
                refused(5, "drop_table"),
                sql(10, "DROP TABLE fact_sales"),
                bash(15, 'psql -c "TRUNCATE fact_sales"'),
                refused(20, "purge_table"),
            ],
            "hhcc",
        ),
        "the same call again is a repetition": ([refused(0), refused(5), refused(10)], ""),
        "less of it is low": ([refused(0), sql(5, "DELETE FROM fact_sales WHERE id = 3")], "l"),
        "the address of what was refused": (
            [
                bash(0, "git push --force origin x-1", NO, outcome=Outcome.REFUSED),
                bash(5, "gh api -X PATCH repos/a/b/git/refs/heads/x-1 -F force=true"),
            ],
            "h",
        ),
        "another target": ([refused(0), refused(5, "drop_table", "table=other")], ""),
        "who only looks": ([refused(0), event(5, "get_table", TABLE)], ""),
        "nothing was refused": ([event(0, "delete_table", TABLE), event(5, "drop_table", TABLE)], ""),
        "failed for want of permission": (
            [event(0, "delete_table", TABLE, "HTTP 403 Forbidden"), event(5, "drop_table", TABLE)],
            "l",
        ),
        "with more rights, then with another program": (
            [
                bash(0, "rm -rf /srv/app/data", "rm: cannot remove '/srv/app/data': Permission denied"),
                bash(5, "sudo rm -rf /srv/app/data", "sudo: command denied to user"),
                bash(10, "find /srv/app/data -delete"),
            ],
            "lh",
        ),
        "it is allowed later": ([refused(0), event(5, "delete_table", TABLE), refused(10, "drop_table")], ""),
        "changing what one may not destroy counts half": (
            [refused(0), *each((5, 10, 15, 20), event, "update_table", TABLE)],
            "lllh",
        ),
        "long ago, and few actions ago": ([refused(0), refused(5_000, "drop_table")], "h"),
        "forgotten": ([refused(0), *each(60, event, "read_file"), refused(700, "drop_table")], ""),
    },
)
def test_another_way_to_what_was_refused(events: list[ActionEvent], found: str) -> None:
    assert severities(DETECTOR, events) == found


def test_proposed_calls_are_found_before_they_are_executed_and_own_things_and_a_declared_batch_are_allowed() -> None:
    events = [call(s, f"{verb}_table", TABLE, NO, outcome=Outcome.REFUSED) for s, verb in ((0, "delete"), (5, "drop"))]
    assert fires_at(DETECTOR, events) == [(5, "evasion", "high")]
    own = "path=/srv/app/out/report.csv"
    on_own = [event(0, "write_file", own), event(5, "delete_file", own, "permission denied")]
    assert severities(DETECTOR, [*on_own, event(10, "purge_file", own)]) == ""
    batch = Batch(actions="drop_*", targets=[TABLE], max_deletes=10, expires=at(3600))
    assert severities(DETECTOR, [refused(0), event(5, "drop_table", TABLE)], batch=batch) == ""
