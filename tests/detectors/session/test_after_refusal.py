"""Sessions that keep trying after refusals."""

from typing import Any

from haltline.detectors.session.after_refusal import AfterRefusal
from haltline.schemas.events import Kind, Outcome
from haltline.schemas.findings import Severity
from tests.builders import Watched, cases, each, event

FEW = AfterRefusal(medium=3, high=5, critical=7)


def refused(seconds: float, target: str = "asset_id=a", why: str = "target_frozen_by_operator", **more: Any) -> Any:
    return event(seconds, "delete_asset", target, why, outcome=Outcome.REFUSED, **more)


def severities(events: list[Any]) -> str:
    """For each event: the first letter of the severity of its finding, `.` for none."""
    return "".join("." if found is None else found.severity.value[0] for found in map(Watched(FEW), events))


@cases(
    "events, expected",
    {
        "the third refusal in a row is one": (each(3, refused), "..m"),
        "and it stands with each further one": (each(9, refused), "..mmhhccc"),
        "whatever it was that was refused": ([refused(s, f"asset_id={s}") for s in range(3)], "..m"),
        "and for whatever reason": (
            [refused(s, why=why) for s, why in enumerate(["approval_expired", "budget_exceeded", "no_verdict"])],
            "..m",
        ),
        "a call that is carried out begins the row anew": (
            [refused(0, "asset_id=a"), refused(1, "asset_id=b"), event(2, "look_up"), refused(3, "asset_id=c")],
            "....",
        ),
        "the same call counts together over others": (
            [refused(0), event(1), refused(2), event(3), refused(4)],
            "....m",
        ),
        "but not over hours": ([refused(0), event(1), refused(700), event(701), refused(1400)], "....."),
        "what was interrupted": (each(4, refused, why="interrupted before it began"), "...."),
    },
)
def test_refusals_are_counted(events: list[Any], expected: str) -> None:
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
        (Severity.MEDIUM, 3, "target_frozen_by_operator")
    ]
    assert [evidence.event_id for evidence in found[0].evidence] == ["r0", "r1", "r2"]
