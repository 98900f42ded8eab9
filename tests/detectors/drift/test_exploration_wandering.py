from collections.abc import Sequence

import pytest

from haltline.detectors.drift.exploration_wandering import ExplorationWandering
from haltline.schemas.events import ActionEvent
from tests.builders import bash, cases, event, findings, nearness, when

DETECTOR = ExplorationWandering()
FOLDERS = ("a", "b/c/d", "e", "f/g/h/i", "j/k", "l", "m/n/o", "p/q/r/s", "t", "u/v")
"""Ten, of various depths."""


def listing(second: int, folder: str) -> ActionEvent:
    return bash(second, f"ls -la {folder}")


def around(first: int = 0, looks: int = 30) -> list[ActionEvent]:
    return [listing(first + n, FOLDERS[n % len(FOLDERS)]) for n in range(looks)]


@cases(
    "events, found",
    {
        "from folder to folder and back, told once": (around(), "23m"),
        "not long enough": (around(looks=23), ""),
        "by a tool": ([event(s, "list_directory", f"path={FOLDERS[s % 10]}") for s in range(24)], "23m"),
        "reading files": ([bash(s, f"cd /testbed && cat {FOLDERS[s % 10]}/x.py | head") for s in range(24)], "23m"),
        "through many folders of one depth, once each": ([listing(s, f"src/f{s}") for s in range(59)], ""),
        "reading one file": ([bash(s, f"sed -n {s},{s + 9}p src/a.py") for s in range(59)], ""),
        "between two folders": ([listing(s, ("src", "tests")[s % 2]) for s in range(59)], ""),
        "a change in between": ([*around(0, 20), bash(20, "sed -i s/a/b/ src/a.py"), *around(21, 20)], ""),
        "a program in between": ([*around(0, 20), bash(20, "python -m pytest"), *around(21, 20)], ""),
        "told again when it began anew": ([*around(0, 24), bash(24, "make"), *around(25, 24)], "23m 48m"),
        "a look at something else is no look at files": ([*around(0, 23), event(23, "get_user", "user_id=1")], ""),
        "looks that write": ([bash(s, f"grep -rn 'a/b' {FOLDERS[s % 10]} > out{s}.txt") for s in range(40)], ""),
    },
)
def test_fires(events: Sequence[ActionEvent], found: str) -> None:
    assert when(DETECTOR, events) == found


def test_what_the_finding_says_and_how_close_it_is() -> None:
    ((_, finding),) = findings(DETECTOR, around(looks=24))
    assert finding.reason == "24 lookups back and forth in 10 folders, with no other action in between"
    parts = {"breadth": 0.5, "backtracking": 1.0, "depth_spread": 0.595, "focus": 0.125}
    assert (finding.code, finding.values) == ("exploration_wandering", {"score": 0.744, "folders": 10, **parts})
    assert finding.confidence == pytest.approx(0.15 + 0.3 + 0.119 + 0.175, abs=0.001)
    assert len(finding.evidence) == 24
    near = nearness(DETECTOR, around(looks=12))
    assert near[0] == 0
    assert 0 < near[-1] < 0.5


def test_looking_without_end_is_reported_though_it_stays_in_one_place() -> None:
    looks = [bash(s, f"sed -n {s},{s + 9}p src/a.py") for s in range(450)]
    assert when(DETECTOR, looks) == "59m 119h 399c"
    assert {finding.code for _, finding in findings(DETECTOR, looks)} == {"endless_looking"}
