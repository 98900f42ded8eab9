from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from haltline.detectors.features.steps import MAX_CALLS
from haltline.schemas.events import ActionEvent, Kind
from tests.builders import Events, call, cases, each, event, in_order, observed


def steps(events: Events) -> list[int]:
    """The step of each attempt, in the order of the events."""
    return [act.step for act in observed(*in_order(events)) if act.is_attempt]


def read(second: float, took_s: float = 0.5, name: object = None) -> tuple[ActionEvent, ActionEvent]:
    """A call that is proposed and then completed; without a name each is another one."""
    proposed, completed = call(second, "read_file", f"path=/{second if name is None else name}", took_s=took_s)
    ids: dict[str, Any] = {"call_id": f"{proposed.call_id} {took_s}"}
    return proposed.model_copy(update=ids), completed.model_copy(update=ids)


def proposed_first(calls: Sequence[tuple[ActionEvent, ActionEvent]]) -> list[ActionEvent]:
    return [proposed for proposed, _ in calls] + [completed for _, completed in calls]


TURN = event(2, kind=Kind.MODEL_TURN, outcome=None)


@cases(
    "events, found",
    {
        "one after the other": ([read(0), read(5), read(10)], [1, 2, 3]),
        "one that runs in the background is of its own": (proposed_first([read(0, 300), read(5, 1)]), [1, 2]),
        "in the order of a recording": ([read(n / 2, 3) for n in range(4)], [1, 1, 1, 1]),
        "in whole seconds, one after the other, that end together": (
            [read(n % 2, 3 - n % 2, name=n) for n in range(4)],
            [1, 1, 1, 1],
        ),
        "a second apart by a clock that is finer than seconds": (each((0.25, 1.25), read, 0), [1, 2]),
        "short ones that are sent one by one": ([read(n / 10, 0.01) for n in range(4)], [1, 1, 1, 1]),
        "behind a result that could be read": ([read(0, 0.01), read(0.8, 0.01)], [1, 2]),
        "a loop that tries again at once": ([read(0.05 * n, 0.05, name=0) for n in range(4)], [1, 2, 3, 4]),
        "a loop is no turn of twenty calls": ([read(0.01 * n, 0.01) for n in range(20)], [1] * 8 + [9] * 8 + [17] * 4),
        "a turn that is told": ([read(0.1 * n) for n in range(2)] + [TURN] + [read(0.2)], [1, 1, 3]),
        "completed after they ran side by side": (
            [event(5 + s / 10, target=f"x={s}", duration_ms=4_000) for s in range(3)],
            [1, 1, 1],
        ),
    },
)
def test_calls_of_one_model_turn_are_one_step(events: Events, found: list[int]) -> None:
    assert steps(events) == found


@given(st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 4_000)), max_size=40))
def test_a_step_begins_with_its_first_call_and_never_comes_back(gaps: list[tuple[int, int]]) -> None:
    now_ms = 0
    events: list[tuple[ActionEvent, ActionEvent]] = []
    for gap_ms, took_ms in gaps:
        now_ms += gap_ms
        events.append(read(now_ms / 1000, took_ms / 1000, name=len(events)))
    found = steps(events)
    for index, (before, step) in enumerate(pairwise([0, *found]), start=1):
        assert step in {before, index}
        assert found.count(step) <= MAX_CALLS
