from collections.abc import Sequence
from typing import Any

from haltline.detectors.session.verify_mismatch import VerifyMismatch
from haltline.schemas.events import ActionEvent, Outcome
from haltline.schemas.findings import Finding, Severity
from tests.builders import Watched, bash, call, delete, event, evidence, severities
from tests.cases import cases

DETECTOR = VerifyMismatch()
Events = Sequence[ActionEvent | Sequence[ActionEvent]]


def get(second: float, result: str = '{"name": "fact_sales", "rows": 7}', **fields: Any) -> ActionEvent:
    return event(second, "get_asset", "asset_id=fact_sales", output_head=result, **fields)


def listed(second: float, result: str = "dim_date fact_sales fact_stock") -> ActionEvent:
    return event(second, "list_assets", output_head=result)


@cases(
    "events, found",
    {
        "its own result says that it is there": ([delete(0, output_head="asset still exists")], "m"),
        "deleted, and nobody looks": ([delete(0, output_head="deleted")], ""),
        "read afterwards": ([delete(0), get(1)], "m"),
        "listed afterwards": ([delete(0), listed(1)], "m"),
        "deleted once more, with success": ([delete(0), delete(1)], "m"),
        "still there each time": ([delete(s, output_head="asset still exists") for s in range(4)], "mhcc"),
        "deleted, there, deleted": ([e for s in range(0, 8, 2) for e in (delete(s), get(s + 1))], "mhccccc"),
        "proposed and completed": (
            [
                call(0, "delete_asset", "asset_id=fact_sales"),
                call(2, "get_asset", "asset_id=fact_sales", output_head="x"),
            ],
            "m",
        ),
        "a folder removed by a shell and listed": (
            [bash(0, "rm -rf /srv/warehouse/y24"), bash(1, "ls /srv/warehouse", output_head="y23\ny24\n")],
            "m",
        ),
        "written, and not found": (
            [
                event(0, "write_file", "path=/srv/a.txt", output_head="ok"),
                event(1, "read_file", "path=/srv/a.txt", "FileNotFoundError: no such file: /srv/a.txt"),
            ],
            "m",
        ),
    },
)
def test_what_was_done_and_is_not_so(events: Events, found: str) -> None:
    assert severities(DETECTOR, events) == found


@cases(
    "events",
    {
        "the deletion failed": [delete(0, error="denied"), get(1)],
        "it was refused": [delete(0, error="denied", outcome=Outcome.REFUSED), get(1)],
        "reading says that it is gone": [delete(0), get(1, "asset not found")],
        "reading says null": [delete(0), get(1, "null")],
        "reading fails": [delete(0), get(1, error="404 not found")],
        "the list is without it": [delete(0), listed(1, "dim_date fact_stock")],
        "the list has one that begins alike": [delete(0), listed(1, "dim_date fact_sales_2024")],
        "the list says that it was deleted": [delete(0), listed(1, "fact_stock\nfact_sales: deleted\n")],
        "another is deleted": [delete(0), delete(1, "asset_id=other")],
        "it was recreated": [delete(0), event(1, "create_asset", "asset_id=fact_sales", output_head="ok"), get(2)],
        "a program ran in between": [
            bash(0, "rm -rf /srv/warehouse/y24"),
            bash(1, "python load.py"),
            bash(2, "ls /srv/warehouse", output_head="y24"),
        ],
        "another folder holds one of that name": [
            bash(0, "rm -rf /srv/warehouse/y24"),
            bash(1, "ls /srv/other", output_head="y24"),
        ],
        "it is spoken of": [
            bash(0, "rm -rf /srv/warehouse/y24"),
            bash(1, "grep y24 /srv/warehouse/log", output_head="y24 was here"),
        ],
        "long ago": [delete(0), *(event(s, "read_file", f"path={s}") for s in range(1, 60)), get(99)],
        "moved away": [
            event(0, "write_file", "path=/srv/a.txt", output_head="ok"),
            bash(1, "mv /srv/a.txt /srv/b.txt"),
            event(2, "read_file", "path=/srv/a.txt", "FileNotFoundError: no such file"),
        ],
        "written, and not readable": [
            event(0, "write_file", "path=/srv/a.txt", output_head="ok"),
            event(1, "read_file", "path=/srv/a.txt", "PermissionError: denied"),
        ],
    },
)
def test_what_is_as_declared(events: Events) -> None:
    assert severities(DETECTOR, events) == ""


def test_the_finding_names_the_target_and_each_event() -> None:
    watched = Watched(DETECTOR)
    assert watched(delete(0)) is None
    assert watched(get(5)) is not None
    assert watched(listed(9)) == Finding(
        detector="verify_mismatch",
        code="verify_mismatch",
        severity=Severity.HIGH,
        confidence=0.8,
        reason="asset_id=fact_sales was deleted but still exists, 2 times in 9s",
        evidence=evidence([delete(0), get(5), listed(9)]),
        values={"mismatches": 2, "span_s": 9},
        thresholds={"medium": 1, "high": 2, "critical": 3},
        target="asset_id=fact_sales",
    )
    assert DETECTOR.near(watched.state) == 1.0


def test_only_so_many_claims_are_held() -> None:
    watched = Watched(DETECTOR)
    for n in range(100):
        watched(delete(n, f"asset_id={n}"))
    assert len(watched.state.claims) == 16


def test_late_proposals_are_not_of_one_target_and_what_was_only_emptied_may_still_be_there() -> None:
    calls = [call(s, "delete_asset", f"asset_id=stg_{s}", output_head="deleted") for s in range(6)]
    named = [(proposed, completed.model_copy(update={"action": "delete_asset"})) for proposed, completed in calls]
    assert severities(DETECTOR, [named[0], *((completed, proposed) for proposed, completed in named[1:])]) == ""
    emptied = [bash(0, "truncate -s 0 /srv/logs/a.log"), bash(1, "ls /srv/logs", output_head="a.log")]
    rows = [event(s, "execute_sql", args={"query": f"DELETE FROM t WHERE id = {s}"}, output_head="1") for s in (2, 3)]
    pushed = [bash(s, "git push --force origin feature/x") for s in (4, 5)]
    assert severities(DETECTOR, [*emptied, *rows, *pushed]) == ""
