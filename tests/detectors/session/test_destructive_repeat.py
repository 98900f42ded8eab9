from typing import Any

from haltline.detectors.session.destructive_repeat import DestructiveRepeat
from haltline.schemas.control import Batch
from haltline.schemas.events import ActionEvent, Outcome
from haltline.schemas.findings import Finding, Severity
from tests.builders import (
    Events,
    at,
    bash,
    call,
    cases,
    delete,
    each,
    event,
    evidence,
    findings,
    in_turn,
    nearness,
    when,
)

DETECTOR = DestructiveRepeat()
TARGET = "asset_id=fact_sales"
REFUSED = Outcome.REFUSED


def sql(second: float, statement: str, **fields: Any) -> tuple[ActionEvent, ActionEvent]:
    return call(second, "execute_sql", args={"query": statement}, output_head="DELETE 1", **fields)


def drop(second: float, **names: str) -> ActionEvent:
    return event(second, "drop_table", None, args=names)


def apart(gap_s: int, action: str) -> list[ActionEvent]:
    """Three deletes, with many of another action between them."""
    return [e for s in (0, gap_s, 2 * gap_s) for e in (delete(s), *each(range(s + 1, s + 25), event, action))]


@cases(
    "events, found",
    {
        "the first attempt": ([delete(0)], ""),
        "the second is suspected and the third a loop": (each((0, 6, 12), delete), "6l 12c"),
        "a loop on each further one": (each((0, 6, 12, 18), delete), "6l 12c 18c"),
        "different targets": ([delete(s, f"asset_id=a{s}") for s in range(9)], ""),
        "two targets in turn": (
            [delete(0), delete(1, "asset_id=other"), delete(2), delete(3, "asset_id=other"), delete(4)],
            "2l 3l 4c",
        ),
        "the same target by other verbs": (
            [delete(0), event(1, "drop_asset", TARGET), event(2, "purge_asset", TARGET)],
            "1l 2c",
        ),
        "arguments that change from call to call do not matter": (
            [event(s, "delete_asset", None, args={"asset_id": "x", "request_id": s}) for s in range(3)],
            "1l 2c",
        ),
        "a table of the same name in another schema": (
            [drop(s, database="d", schema=name, table="t") for s, name in enumerate("abc")],
            "",
        ),
        "looking in between changes nothing": (
            [delete(0), event(1, "get_asset", TARGET), delete(2), event(3, "list_assets"), delete(4)],
            "2l 4c",
        ),
        "slow, but action after action": (each((0, 600, 1200), delete), "600l 1200c"),
        "neither within the window nor within the last actions": (apart(700, "write_file"), ""),
        "slow, with nothing but reads in between": (apart(700, "read_file"), "700l 1400c"),
        "in other case, in quotes, with its schema": (
            [drop(0, table="fact_sales"), drop(1, table="dw.public.fact_sales"), drop(2, table='"DW"."FACT_SALES"')],
            "1l 2c",
        ),
        "many actions in between, but exactly as old as the window": (apart(300, "read_file"), "300l 600c"),
        "in whatever order they come": (each((12, 6, 0), delete), "6l 0c"),
        "calls that do not say what they are about": (each(5, event, "delete_asset"), ""),
        "scratch is nobody's loss": (each(3, event, "delete_table", "table=tmp_load"), ""),
        "what the session itself made": ([event(0, "create_asset", TARGET), *each(range(1, 4), delete)], ""),
        "what the session itself made again after it": (
            in_turn(range(0, 6, 2), delete, lambda s: event(s, "create_asset", TARGET)),
            "",
        ),
        # attempts and results
        "attempts that failed were executed": (
            each((0, 6, 12), call, "delete_asset", TARGET, "asset still exists"),
            "6l 12c",
        ),
        "refused attempts were not": (each((0, 6, 12), call, "delete_asset", TARGET, outcome=REFUSED), ""),
        "attempts whose result is open go on": ([call(s, "delete_asset", TARGET)[0] for s in (0, 6, 12)], "6l 12c"),
        "refused, and never proposed": (each((0, 6, 12), delete, outcome=REFUSED), ""),
        # what counts as the same thing
        "other rows each time": ([sql(s, f"DELETE FROM t WHERE id = {s}") for s in range(4)], ""),
        "the same rows": (each(3, sql, "DELETE FROM t WHERE id = 7"), "1l 2c"),
        "the same rows, refused": (each(4, sql, "DELETE FROM t WHERE id = 7", outcome=REFUSED), ""),
        "all rows": (each(3, sql, "DELETE FROM t"), "1l 2c"),
        "a container that the session makes anew each time": (
            [bash(s, c) for s, c in enumerate(["docker rm -f db", "docker run -d --name db postgres"] * 4)],
            "",
        ),
        "a container that it does not": (each(3, bash, "docker rm -f db"), "1l 2c"),
        "a branch that it has overwritten before": (
            [bash(s, c) for s, c in enumerate(["git commit --amend", "git push --force origin feature/x"] * 4)],
            "",
        ),
    },
)
def test_fires(events: Events, found: str) -> None:
    assert when(DETECTOR, events) == found


@cases("prior, found", {"one before is allowed": (1, "lcc"), "two before are allowed": (2, "llc")})
def test_how_many_may_lie_before(prior: int, found: str) -> None:
    made = findings(DestructiveRepeat(same_target_prior=prior), each(4, delete))
    assert [f.code for _, f in made] == [{"l": "loop_suspected", "c": "loop_detected"}[letter] for letter in found]
    assert "".join(f.severity.value[0] for _, f in made) == found


def test_the_finding_of_the_loop_guards_scenario_also_in_a_declared_batch_and_how_close_it_is() -> None:
    batch = Batch(max_deletes=100, expires=at(3600))
    _, (_, finding) = findings(DETECTOR, each((0, 6, 12), delete), batch=batch)
    assert finding == Finding(
        detector="destructive_repeat",
        code="loop_detected",
        severity=Severity.CRITICAL,
        reason="loop_detected, 3 deletes on asset_id=fact_sales in 12s",
        evidence=evidence(each((0, 6, 12), delete)),
        values={"deletes": 3, "span_s": 12},
        thresholds={"same_target_prior": 1, "window_s": 600.0, "last_actions": 20},
        target=TARGET,
    )
    assert nearness(DETECTOR, each((0, 6, 12), delete)) == [0, 0.33, 0.67, 1]
