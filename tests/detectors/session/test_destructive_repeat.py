from collections.abc import Sequence

from haltline.detectors.session.destructive_repeat import DestructiveRepeat
from haltline.schemas.control import Batch
from haltline.schemas.events import ActionEvent, Outcome
from haltline.schemas.findings import Finding, Severity
from tests.builders import Watched, at, bash, call, delete, each, event, evidence, findings, fires_at, nearness
from tests.cases import cases

DETECTOR = DestructiveRepeat()
SUSPECTED, DETECTED = ("loop_suspected", "low"), ("loop_detected", "critical")


@cases(
    "events, fires",
    {
        "the first attempt": ([delete(0)], []),
        "the second is suspected and the third a loop": (
            [delete(0), delete(6), delete(12)],
            [(6, *SUSPECTED), (12, *DETECTED)],
        ),
        "a loop on each further one": (
            [delete(0), delete(6), delete(12), delete(18)],
            [(6, *SUSPECTED), (12, *DETECTED), (18, *DETECTED)],
        ),
        "different targets": ([delete(s, f"asset_id=a{s}") for s in range(9)], []),
        "two targets in turn": (
            [delete(0), delete(1, "asset_id=other"), delete(2), delete(3, "asset_id=other"), delete(4)],
            [(2, *SUSPECTED), (3, *SUSPECTED), (4, *DETECTED)],
        ),
        "the same target by other verbs": (
            [delete(0), event(1, "drop_asset", "asset_id=fact_sales"), event(2, "purge_asset", "asset_id=fact_sales")],
            [(1, *SUSPECTED), (2, *DETECTED)],
        ),
        "arguments that change from call to call do not matter": (
            [event(s, "delete_asset", None, args={"asset_id": "x", "request_id": s}) for s in range(3)],
            [(1, *SUSPECTED), (2, *DETECTED)],
        ),
        "a table of the same name in another schema": (
            [event(s, "drop_table", None, args={"database": "d", "schema": s, "table": "t"}) for s in range(3)],
            [],
        ),
        "looking in between changes nothing": (
            [delete(0), event(1, "get_asset", "asset_id=fact_sales"), delete(2), event(3, "list_assets"), delete(4)],
            [(2, *SUSPECTED), (4, *DETECTED)],
        ),
        "slow, but action after action": (each((0, 600, 1200), delete), [(600, *SUSPECTED), (1200, *DETECTED)]),
        "neither within the window nor within the last actions": (
            [e for s in (0, 700, 1400) for e in (delete(s), *(event(s + i, "write_file") for i in range(1, 25)))],
            [],
        ),
        "slow, with nothing but reads in between": (
            [e for s in (0, 700, 1400) for e in (delete(s), *(event(s + i, "read_file") for i in range(1, 25)))],
            [(700, *SUSPECTED), (1400, *DETECTED)],
        ),
        "in other case, in quotes, with its schema": (
            [
                event(s, "drop_table", None, args={"table": name})
                for s, name in enumerate(("fact_sales", "dw.public.fact_sales", '"DW"."PUBLIC"."FACT_SALES"'))
            ],
            [(1, *SUSPECTED), (2, *DETECTED)],
        ),
        "many actions in between, but exactly as old as the window": (
            [e for s in (0, 300, 600) for e in (delete(s), *(event(s + i, "read_file") for i in range(1, 25)))],
            [(300, *SUSPECTED), (600, *DETECTED)],
        ),
        "in whatever order they come": (each((12, 6, 0), delete), [(6, *SUSPECTED), (0, *DETECTED)]),
        "calls that do not say what they are about": (each(5, event, "delete_asset"), []),
        "scratch is nobody's loss": (each(3, event, "delete_table", "table=tmp_load"), []),
        "what the session itself made": (
            [event(0, "create_asset", "asset_id=fact_sales"), *each(range(1, 4), delete)],
            [],
        ),
        "destroyed and made again, over and over": (
            [e for s in range(3) for e in (delete(s), event(s + 0.5, "create_asset", "asset_id=fact_sales"))],
            [(1, *SUSPECTED), (2, *DETECTED)],
        ),
    },
)
def test_fires(events: Sequence[ActionEvent], fires: list[tuple[float, str, str]]) -> None:
    assert fires_at(DETECTOR, events) == fires


@cases(
    "events, fires",
    {
        "attempts that failed were executed": (
            each((0, 6, 12), call, "delete_asset", "asset_id=fact_sales", "asset still exists"),
            [(6, *SUSPECTED), (12, *DETECTED)],
        ),
        "refused attempts were not": (
            each((0, 6, 12), call, "delete_asset", "asset_id=fact_sales", outcome=Outcome.REFUSED),
            [],
        ),
        "attempts whose result is open go on": (
            [call(s, "delete_asset", "asset_id=fact_sales")[0] for s in (0, 6, 12)],
            [(6, *SUSPECTED), (12, *DETECTED)],
        ),
        "refused, and never proposed": (each((0, 6, 12), delete, outcome=Outcome.REFUSED), []),
    },
)
def test_attempts_and_results(
    events: Sequence[ActionEvent | tuple[ActionEvent, ...]], fires: list[tuple[float, str, str]]
) -> None:
    assert fires_at(DETECTOR, events) == fires


@cases(
    "prior, fires",
    {
        "one before is allowed": (1, ["loop_suspected", "loop_detected", "loop_detected"]),
        "two before are allowed": (2, ["loop_suspected", "loop_suspected", "loop_detected"]),
    },
)
def test_how_many_may_lie_before(prior: int, fires: list[str]) -> None:
    found = findings(DestructiveRepeat(same_target_prior=prior), each(4, delete))
    assert [finding.code for _, finding in found] == fires


def test_a_declared_batch_changes_nothing() -> None:
    batch = Batch(max_deletes=100, expires=at(3600))
    assert fires_at(DETECTOR, each((0, 6, 12), delete), batch=batch) == [(6, *SUSPECTED), (12, *DETECTED)]


def test_the_finding_of_the_loop_guards_scenario() -> None:
    _, (_, finding) = findings(DETECTOR, each((0, 6, 12), delete))
    assert finding == Finding(
        detector="destructive_repeat",
        code="loop_detected",
        severity=Severity.CRITICAL,
        reason="loop_detected, 3 deletes on asset_id=fact_sales in 12s",
        evidence=evidence(each((0, 6, 12), delete)),
        values={"deletes": 3, "span_s": 12},
        thresholds={"same_target_prior": 1, "window_s": 600.0, "last_actions": 20},
        target="asset_id=fact_sales",
    )


def test_it_says_how_close_it_is() -> None:
    assert nearness(DETECTOR, each((0, 6, 12), delete)) == [0, 0.33, 0.67, 1]


def test_only_so_many_targets_are_remembered() -> None:
    watched = Watched(DETECTOR)
    for second in range(1000):
        watched(delete(second, f"asset_id=a{second}"))
    assert len(watched.state.attempts) == 128


def sql(second: float, statement: str) -> ActionEvent:
    return event(second, "execute_sql", args={"query": statement}, output_head="DELETE 1")


@cases(
    "events, codes",
    {
        "other rows each time": ([sql(s, f"DELETE FROM t WHERE id = {s}") for s in range(4)], []),
        "the same rows": (each(3, sql, "DELETE FROM t WHERE id = 7"), ["loop_suspected", "loop_detected"]),
        "all rows": (each(3, sql, "DELETE FROM t"), ["loop_suspected", "loop_detected"]),
        "a container that the session makes anew each time": (
            [bash(s, c) for s, c in enumerate(["docker rm -f db", "docker run -d --name db postgres"] * 4)],
            [],
        ),
        "a container that it does not": (each(3, bash, "docker rm -f db"), ["loop_suspected", "loop_detected"]),
        "a branch that it has overwritten before": (
            [bash(s, c) for s, c in enumerate(["git commit --amend", "git push --force origin feature/x"] * 4)],
            [],
        ),
    },
)
def test_what_counts_as_the_same_thing(events: list[ActionEvent], codes: list[str]) -> None:
    assert [code for _, code, _ in fires_at(DestructiveRepeat(), events)] == codes


def test_rows_that_were_refused_do_not_count() -> None:
    refused = each(4, call, "execute_sql", args={"query": "DELETE FROM t WHERE id = 7"}, outcome=Outcome.REFUSED)
    assert fires_at(DestructiveRepeat(), refused) == []
