from collections.abc import Sequence
from typing import Any

import pytest

from haltline.detectors.session.budget import Budget
from haltline.schemas.events import ActionEvent, Kind, Outcome
from tests.builders import call, cases, each, event, findings, fires_at, when


def used(second: float, **usage: float) -> ActionEvent:
    return event(second, usage=usage)


def started(**limits: float) -> ActionEvent:
    return event(0, "", kind=Kind.SESSION_STARTED, outcome=None, task={"limits": limits})


@cases(
    "limits, events, found",
    {
        "money, and again for each further tenth": (
            {"cost_usd": 10.0},
            each(range(1, 13), used, cost_usd=1),
            "8l 11c 12c",
        ),
        "tokens of every sort": (
            {"tokens": 100},
            each(range(1, 4), used, input_tokens=10, output_tokens=10, cache_read_tokens=20),
            "2l 3c",
        ),
        "calls": ({"calls": 5}, each(range(1, 7), event), "4l 6c"),
        "refused calls are not made": ({"calls": 2}, each(9, event, outcome=Outcome.REFUSED), ""),
        "time": ({"duration_s": 100}, each((0, 79, 80, 100, 101), event), "80l 101c"),
        "declared by the session": ({}, [started(cost_usd=2), *each((1, 2, 3), used, cost_usd=1)], "2l 3c"),
        "a declared limit loosens nothing": (
            {"cost_usd": 2.0},
            [started(cost_usd=100), *each((1, 2, 3), used, cost_usd=1)],
            "2l 3c",
        ),
        "a declared time in milliseconds": ({}, [started(duration_ms=10_000), event(9), event(11)], "9l 11c"),
        "unknown and empty limits": ({}, [started(wishes=1, calls=0), *each(range(1, 9), event)], ""),
    },
)
def test_fires(limits: dict[Any, float], events: Sequence[ActionEvent], found: str) -> None:
    codes = {"low": "budget_warning", "critical": "budget_exceeded"}
    assert when(Budget(limits=limits), events) == found
    assert all(code == codes[severity] for _, code, severity in fires_at(Budget(limits=limits), events))


def test_a_proposed_call_counts_once_and_a_limit_is_more_than_nothing() -> None:
    assert when(Budget(limits={"calls": 2}), each((1, 2, 3), call)) == "2l 3c"
    with pytest.raises(ValueError, match="greater than 0"):
        Budget(limits={"calls": 0})


def turn(second: float, **usage: float) -> ActionEvent:
    return event(second, "", kind=Kind.MODEL_TURN, outcome=None, usage=usage or None)


@pytest.mark.parametrize(
    ("limits", "reason", "unknown"),
    [
        ({"tokens": 10}, "12 of 10 tokens used, 120%; usage unknown of 2 model turns", 2),
        ({"file_ops": 1}, "3 of 1 file_ops used, 300%", None),
    ],
)
def test_a_total_that_lacks_turns_of_the_model_says_so(
    limits: dict[Any, float], reason: str, unknown: int | None
) -> None:
    events = [turn(0), turn(1, memory_bytes=5), turn(2, input_tokens=12, file_ops=3)]
    ((_, finding),) = findings(Budget(limits=limits), events)
    assert (finding.reason, finding.values.get("turns_usage_unknown")) == (reason, unknown)
