"""Who goes on trying after refusals."""

from typing import Any

from haltline.detectors.session.after_refusal import AfterRefusal
from haltline.schemas.events import Kind, Outcome
from haltline.schemas.findings import Finding, Severity
from tests.builders import Watched, each, event
from tests.cases import cases

FEW = AfterRefusal(medium=3, high=5, critical=7)
MEDIUM, HIGH, CRITICAL = Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL


def refused(seconds: float, target: str = "asset_id=a", why: str = "target_frozen_by_operator", **more: Any) -> Any:
    return event(seconds, "delete_asset", target, why, outcome=Outcome.REFUSED, **more)


def severities(events: list[Any], detector: AfterRefusal = FEW) -> list[Severity | None]:
    watched = Watched(detector)
    found: list[Finding | None] = [watched(one) for one in events]
    return [None if one is None else one.severity for one in found]


@cases(
    "events, expected",
    {
        "the third refusal in a row is one": (each(3, refused), [None, None, MEDIUM]),
        "it is told once for each severity": (each(8, refused), [None, None, MEDIUM, None, HIGH, None, CRITICAL, None]),
        "and again with as many more": (
            each(14, refused),
            [None, None, MEDIUM, None, HIGH, None, CRITICAL, *[None] * 6, CRITICAL],
        ),
        "whatever it was that was refused": ([refused(s, f"asset_id={s}") for s in range(3)], [None, None, MEDIUM]),
        "and for whatever reason": (
            [refused(s, why=why) for s, why in enumerate(["approval_expired", "budget_exceeded", "no_verdict"])],
            [None, None, MEDIUM],
        ),
        "a call that is carried out begins the row anew": (
            [refused(0, "asset_id=a"), refused(1, "asset_id=b"), event(2, "look_up"), refused(3, "asset_id=c")],
            [None] * 4,
        ),
        "the same call counts together over others": (
            [refused(0), event(1), refused(2), event(3), refused(4)],
            [None] * 4 + [MEDIUM],
        ),
        "but not over hours": ([refused(0), event(1), refused(700), event(701), refused(1400)], [None] * 5),
        "what was interrupted": (each(4, refused, why="interrupted before it began"), [None] * 4),
    },
)
def test_refusals_are_counted(events: list[Any], expected: list[Severity | None]) -> None:
    assert severities(events) == expected


def test_what_was_proposed_and_then_refused_counts_as_what_was_refused_at_once() -> None:
    calls = [
        one
        for s in range(3)
        for one in (
            event(s, "delete_asset", "asset_id=a", kind=Kind.PROPOSED, call_id=f"c{s}", event_id=f"p{s}"),
            refused(s + 0.1, call_id=f"c{s}", event_id=f"r{s}"),
        )
    ]
    watched = Watched(FEW)
    found = [one for one in map(watched, calls) if one is not None]
    assert [(one.severity, one.values["refused"], one.values["refused_with"]) for one in found] == [
        (MEDIUM, 3, "target_frozen_by_operator")
    ]
    assert [evidence.event_id for evidence in found[0].evidence] == ["r0", "r1", "r2"]
