from collections.abc import Sequence

import pytest

from haltline.detectors.hallucination import Hallucination
from haltline.schemas.events import ActionEvent, Kind
from tests.builders import Watched, bash, event, findings, fires_at

DETECTOR = Hallucination()
MEDIUM, HIGH = ("hallucination", "medium"), ("hallucination", "high")


def missing(second: float, path: str) -> ActionEvent:
    return event(second, "read_file", f"path={path}", f"File not found: {path}")


def no_script(second: float, name: str) -> ActionEvent:
    error = f"rc=2: python: can't open file '/testbed/{name}': [Errno 2] No such file or directory"
    return bash(second, f"python {name}", error)


@pytest.mark.parametrize(
    ("events", "fires"),
    [
        pytest.param([missing(0, "a.py")], [], id="one phantom file"),
        pytest.param(
            [missing(s, f"{s}.py") for s in range(5)],
            [(1, *MEDIUM), (2, *MEDIUM), (3, *HIGH), (4, *HIGH)],
            id="one after another",
        ),
        pytest.param([missing(s, "a.py") for s in range(5)], [], id="the same one is a repetition"),
        pytest.param([no_script(0, "fix.py"), no_script(1, "fix2.py")], [(1, *MEDIUM)], id="scripts nobody wrote"),
        pytest.param(
            [
                bash(0, "cat a.py", "cat: a.py: No such file or directory"),
                bash(1, "sed -n 1,5p b.py", "rc=2: sed: can't read b.py: No such file or directory"),
            ],
            [(1, *MEDIUM)],
            id="programs that read",
        ),
        pytest.param(
            [
                event(
                    s, "run_code", None, f"FileNotFoundError: [Errno 2] No such file or directory: '{s}.csv'", args={}
                )
                for s in range(2)
            ],
            [(1, *MEDIUM)],
            id="data that nobody has",
        ),
        pytest.param(
            [
                bash(0, "ls a.py", "ls: cannot access 'a.py': No such file or directory"),
                bash(1, "rm b.py", "rm: cannot remove 'b.py': No such file or directory"),
                bash(2, "cat *.md", "cat: '*.md': No such file or directory"),
            ],
            [],
            id="asking whether it exists",
        ),
        pytest.param(
            [bash(0, "cat > fix.py <<'E'\nx\nE"), bash(1, "rm fix.py"), no_script(2, "fix.py"), no_script(3, "b.py")],
            [],
            id="what the session made and removed",
        ),
        pytest.param(
            [event(s, f"magic_{s}", None, f"Unknown tool: magic_{s}") for s in range(2)], [(1, *MEDIUM)], id="tools"
        ),
        pytest.param(
            [event(s, "get_user", f"user_id=u{s}", "Error: user not found") for s in range(2)],
            [(1, *MEDIUM)],
            id="records that a tool does not find",
        ),
        pytest.param(
            [event(s, "delete_asset", f"asset_id=a{s}", "not found") for s in range(3)],
            [],
            id="gone already is no error",
        ),
        pytest.param(
            [event(s, "job_status", f"id={s}", "not found") for s in range(3)], [], id="waiting for something"
        ),
        pytest.param(
            [event(s, "get_user", f"user_id=u{s}", "permission denied") for s in range(3)], [], id="other errors"
        ),
        pytest.param(
            [missing(0, "a.py"), event(1, "cite", "doc=7", exists=False), event(2, "claim", "x=1", verified=False)],
            [(1, *MEDIUM), (2, *MEDIUM)],
            id="what the producer has checked",
        ),
        pytest.param(
            [event(s, "", kind=Kind.MODEL_TURN, outcome=None, verified=False, event_id=f"turn {s}") for s in range(2)],
            [(1, *MEDIUM)],
            id="assertions of a model turn",
        ),
        pytest.param([event(s, "claim", f"x={s}", verified=True) for s in range(3)], [], id="true assertions"),
        pytest.param(
            [missing(0, "a.py"), *(event(s) for s in range(1, 20)), missing(20, "b.py")], [], id="too far apart"
        ),
        pytest.param(
            [missing(0, "a.py"), *(event(s) for s in range(1, 19)), missing(19, "b.py")],
            [(19, *MEDIUM)],
            id="as far apart as counts",
        ),
    ],
)
def test_fires(events: Sequence[ActionEvent], fires: list[tuple[float, str, str]]) -> None:
    assert fires_at(DETECTOR, events) == fires


def test_what_the_finding_says() -> None:
    events = [missing(0, "a.py"), *(event(s) for s in range(1, 19)), event(19, "cite", "doc=7", exists=False)]
    ((_, finding),) = findings(DETECTOR, events)
    assert finding.reason == "2 references within 20 actions to what does not exist: path=a.py, doc=7"
    assert finding.confidence == 1.0
    assert finding.values == {
        "occurrences": 2,
        "rate": 0.1,
        "phantom_files": 1,
        "incorrect_references": 1,
        "false_assertions": 0,
    }
    assert [e.event_id for e in finding.evidence] == ["s1@0 read_file path=a.py", "s1@19 cite doc=7"]


def test_confidence_is_ten_times_the_rate() -> None:
    events = [missing(0, "a.py"), *(event(s) for s in range(1, 39)), missing(39, "b.py")]
    ((_, finding),) = findings(Hallucination(last_actions=40), events)
    assert finding.confidence == 0.5


def test_it_says_how_close_it_is() -> None:
    watched = Watched(DETECTOR)
    watched(missing(0, "a.py"))
    assert watched.detector.near(watched.state) == 0.5
