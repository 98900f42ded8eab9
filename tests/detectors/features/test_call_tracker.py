from typing import Any

from haltline.detectors.features.call import Phase
from haltline.detectors.features.call_tracker import MAX_DONE_CALLS, MAX_OPEN_CALLS, CallTracker
from haltline.detectors.features.ownership import MAX_TARGETS
from haltline.schemas.events import ActionEvent, Kind
from tests.builders import call, cases, delete, event, observed

ATTEMPT, RESULT, BOTH, NONE = Phase


def proposed(second: float, call_id: str | None = "c", action: str = "look_up", **fields: Any) -> ActionEvent:
    return event(second, action, kind=Kind.PROPOSED, outcome=None, call_id=call_id, event_id=f"p{second}", **fields)


def completed(second: float, call_id: str | None = "c", action: str = "look_up", **fields: Any) -> ActionEvent:
    return event(second, action, call_id=call_id, event_id=f"r{second}", **fields)


@cases(
    "events, expected",
    {
        "proposed and completed": ([proposed(0), completed(1)], [ATTEMPT, RESULT]),
        "the proposal comes after its result": ([completed(1, args={}), proposed(0)], [BOTH, NONE]),
        "after a result that did not say what it was of": ([completed(1), proposed(0)], [BOTH, ATTEMPT]),
        "the proposal is lost, and the result says what it was of": (
            [proposed(0), completed(3, "d", targets=["x=1"]), proposed(2, "d")],
            [ATTEMPT, BOTH, NONE],
        ),
        "the proposal comes twice": ([proposed(0), proposed(0), completed(1)], [ATTEMPT, NONE, RESULT]),
        "a producer that uses one call id for ever": (
            [proposed(0), completed(1), proposed(2), completed(3)],
            [ATTEMPT, RESULT, ATTEMPT, RESULT],
        ),
        "the same, results only": ([completed(0), completed(1), completed(2)], [BOTH, BOTH, BOTH]),
        "without call ids, in parallel": (
            [proposed(0, None), proposed(1, None), completed(2, None), completed(3, None), completed(4, None)],
            [ATTEMPT, ATTEMPT, RESULT, RESULT, BOTH],
        ),
        "without call ids, the result of another tool": ([proposed(0, None), completed(1, None, "x")], [ATTEMPT, BOTH]),
        "events that are not about calls": (
            [event(0, kind=kind) for kind in set(Kind) - {Kind.PROPOSED, Kind.COMPLETED}],
            [NONE] * (len(Kind) - 2),
        ),
    },
)
def test_phases(events: list[ActionEvent], expected: list[Phase]) -> None:
    assert [act.phase for act in observed(*events)] == expected


def test_results_join_their_attempts_actions_are_counted_once_each_and_all_is_bounded() -> None:
    first, second = proposed(0, None, targets=["x=1"]), proposed(1, None, targets=["x=2"])
    *_, act = observed(first, second, completed(2, None))
    assert act.call is not None
    assert (act.call.event_id, act.head) == ("p0", "x=1")
    tried, done = observed(*call(0, "delete_asset", "asset_id=a"))
    assert [(a.action, a.effect, a.losses, a.index, a.head, a.changes) for a in (tried, done)] == [
        (tried.action, tried.effect, tried.losses, 1, "asset_id=a", True)
    ] * 2
    assert [loss.target for loss in done.losses] == ["asset_id=a"]
    calls = CallTracker()
    acts = observed(*call(0), *call(1), event(2), event(3, kind=Kind.MODEL_TURN), calls=calls)
    assert ([act.index for act in acts], calls.actions) == ([1, 1, 2, 2, 3, 3], 3)
    calls = CallTracker()
    for number in range(1000):
        created = completed(number, f"done {number}", "create_asset", targets=[f"asset_id={number}"])
        observed(proposed(number, f"open {number}"), created, delete(number, f"asset_id=x{number}"), calls=calls)
    sizes = (len(calls.open), len(calls.done), len(calls.belongings.own))
    assert sizes == (MAX_OPEN_CALLS, MAX_DONE_CALLS, MAX_TARGETS)
