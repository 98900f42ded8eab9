from collections.abc import Sequence

import pytest

from haltline.detectors.drift.goal_drift import GoalDrift
from haltline.schemas.events import ActionEvent, Kind
from tests.builders import Watched, cases, each, event, findings, fires_at, nearness, when

DETECTOR = GoalDrift()
GOAL = "Repair invoice export rounding"


def started(goal: str = GOAL) -> ActionEvent:
    return event(0, "", kind=Kind.SESSION_STARTED, outcome=None, task={"goal": goal})


def on_goal(second: int) -> ActionEvent:
    return event(second, "edit", args={"what": "repair rounding invoice export"})


def off_goal(second: int) -> ActionEvent:
    return event(second, "edit", args={"what": "beautiful holiday pictures"})


@cases(
    "events, found",
    {
        "away from the goal": ([started(), *map(on_goal, range(1, 5)), *map(off_goal, range(5, 15))], "10m"),
        "never close to the goal": ([started(), *map(off_goal, range(1, 40))], ""),
        "towards the goal": ([started(), *map(off_goal, range(1, 9)), *map(on_goal, range(9, 14))], ""),
        "without a goal": ([*map(on_goal, range(1, 5)), *map(off_goal, range(5, 40))], ""),
        "actions that say nothing": ([started(), *each(range(1, 40), event, "x")], ""),
        "towards another part of the goal": (
            [
                started("Greetings.\n\n" + GOAL + "\n\nTake holiday pictures, beautiful ones."),
                *map(on_goal, range(1, 5)),
                *map(off_goal, range(5, 30)),
            ],
            "",
        ),
    },
)
def test_fires(events: Sequence[ActionEvent], found: str) -> None:
    assert when(DETECTOR, events) == found


@pytest.mark.parametrize("length", [10, 20])
def test_a_step_down_is_found_though_its_slope_is_never_below_the_published_threshold(length: int) -> None:
    events = [started(), *map(on_goal, range(1, length // 2)), *map(off_goal, range(length // 2, length + 1))]
    ((_, finding),) = findings(GoalDrift(min_actions=length), events)
    change = finding.values["change"]
    assert isinstance(change, float)
    assert change / (length - 1) > -0.3
    assert change < -0.3


def test_overlap_is_not_diluted_by_a_long_goal_and_it_says_how_close_it_is() -> None:
    goal = GOAL + " " + " ".join(f"word{chr(97 + n)}filler" for n in range(26))
    events = [started(goal), *map(on_goal, range(1, 5)), *map(off_goal, range(5, 15))]
    assert when(GoalDrift(measure="jaccard"), events) == ""
    assert fires_at(GoalDrift(measure="overlap"), events) == [(10, "goal_drift", "medium")]
    assert nearness(DETECTOR, [started(), *map(on_goal, range(1, 5)), *map(off_goal, range(5, 11))])[-1] == 1.0


def test_of_a_goal_so_much_is_remembered_also_one_that_an_older_release_kept() -> None:
    watched = Watched(DETECTOR)
    watched(
        started("\n\n".join(" ".join(f"w{chr(97 + n % 26)}{chr(97 + i % 26)}q" for i in range(9)) for n in range(100)))
    )
    assert len(watched.state.sizes) == 16
    words = ["amber", "basin", "cedar"]
    watched = Watched(GoalDrift())
    watched.state.goals = [words, ["other", "words", "than", "these"]]
    watched(event(0, "edit_file", args={"text": "amber basin delta"}))
    assert (watched.state.goals, watched.state.sizes) == ([], [3, 4])
    assert watched.state.alignments == [0.333333]  # amber and basin of six
