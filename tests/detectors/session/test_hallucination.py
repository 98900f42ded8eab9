from haltline.detectors.session.hallucination import Hallucination
from haltline.schemas.events import ActionEvent, Kind
from tests.builders import Events, bash, cases, each, event, findings, fires_at, in_turn, nearness, when

DETECTOR = Hallucination()
NO_FILE = "No such file or directory"


def missing(second: float, path: str) -> ActionEvent:
    return event(second, "read_file", f"path={path}", f"File not found: {path}")


def no_script(second: float, name: str) -> ActionEvent:
    return bash(second, f"python {name}", f"rc=2: python: can't open file '/testbed/{name}': [Errno 2] {NO_FILE}")


def cite(second: float) -> ActionEvent:
    return event(second, "cite", f"doc={second}", exists=False)


def nowhere(second: float, command: str, path: str) -> ActionEvent:
    return bash(second, command, f"cat: {path}: {NO_FILE}")


def no_data(second: float) -> ActionEvent:
    code = f"open('x.csv').read({second})"
    return event(second, "run_code", None, f"FileNotFoundError: [Errno 2] {NO_FILE}: 'x.csv'", args={"code": code})


def untrue(second: float) -> ActionEvent:
    return event(second, "", kind=Kind.MODEL_TURN, outcome=None, verified=False, event_id=f"turn {second}")


@cases(
    "events, found",
    {
        "first guesses, one after another": ([missing(s, f"{s}.py") for s in range(5)], ""),
        "one phantom file twice": (each(2, missing, "a.py"), ""),
        "again and again what was said not to exist": (each(5, missing, "a.py"), "2m 3m 4h"),
        "a script that nobody wrote": (each(3, no_script, "fix.py"), "2m"),
        "programs that read": (
            [
                nowhere(0, "cat src/a.py", "src/a.py"),
                bash(1, "sed -n 1,5p src/a.py", f"rc=2: sed: can't read src/a.py: {NO_FILE}"),
                nowhere(2, "cd src && cat a.py", "a.py"),
            ],
            "2m",
        ),
        "looking for a file in one folder after another": (
            [nowhere(s, f"cd /{folder} && cat a.py", "a.py") for s, folder in enumerate("abc")],
            "",
        ),
        "data that nobody has": (each(3, no_data), "2m"),
        "what a program under work misses": (
            each(3, bash, "python play.py", f"FileNotFoundError: [Errno 2] {NO_FILE}: 'level.dat'"),
            "",
        ),
        "asking whether it exists": (
            [
                bash(0, "ls a.py", f"ls: cannot access 'a.py': {NO_FILE}"),
                *each((1, 2), bash, "rm a.py", f"rm: cannot remove 'a.py': {NO_FILE}"),
                *each((3, 4, 5), nowhere, "cat *.md", "'*.md'"),
            ],
            "",
        ),
        "what the session made and removed": (
            [bash(0, "cat > fix.py <<'E'\nx\nE"), bash(1, "rm fix.py"), *each((2, 3, 4), no_script, "fix.py")],
            "",
        ),
        "looking again after each change": (
            in_turn(range(0, 8, 2), lambda s: nowhere(s, "cat out/log", "out/log"), lambda s: bash(s, "git pull")),
            "",
        ),
        "one tool that the harness does not have, called again": (
            each(2, event, "magic", None, "Error: tool 'magic' not found"),
            "1m",
        ),
        "what the producer has checked": ([cite(0), event(1, "claim", "x=1", verified=False)], "1m"),
        "assertions of a model turn": (each(2, untrue), "1m"),
        "true assertions": ([event(s, "claim", f"x={s}", verified=True) for s in range(3)], ""),
        "too far apart": ([cite(0), *each(range(1, 20), event), cite(20)], ""),
        "as far apart as counts": ([cite(0), *each(range(1, 19), event), cite(19)], "19m"),
        "said so too long ago": ([missing(0, "a.py"), *each(range(1, 20), event), missing(20, "a.py"), cite(21)], ""),
    },
)
def test_fires(events: Events, found: str) -> None:
    assert when(DETECTOR, events) == found


def test_the_finding_says_how_often_how_sure_and_how_close_it_is() -> None:
    events = [*each((0, 1), missing, "a.py"), *each(range(2, 20), event), cite(20)]
    ((_, finding),) = findings(DETECTOR, events)
    assert fires_at(DETECTOR, events) == [(20, "hallucination", "medium")]
    assert finding.reason == "2 references within 20 actions to things that do not exist: path=a.py, doc=20"
    assert finding.confidence == 1.0
    kinds = {"phantom_files": 1, "incorrect_references": 1, "false_assertions": 0}
    assert finding.values == {"occurrences": 2, "rate": 0.1, **kinds}
    assert [e.event_id for e in finding.evidence] == ["s1@1 read_file path=a.py", "s1@20 cite doc=20"]
    ((_, finding),) = findings(Hallucination(last_actions=40), [cite(0), *each(range(1, 39), event), cite(39)])
    assert finding.confidence == 0.5
    assert nearness(DETECTOR, [cite(0)]) == [0, 0.5]
