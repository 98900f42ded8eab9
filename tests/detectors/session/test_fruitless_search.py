from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.detectors.session import fruitless_search
from haltline.detectors.session.fruitless_search import FruitlessSearch
from haltline.schemas.events import ActionEvent
from haltline.schemas.findings import Severity
from tests.builders import bash, call, event, findings, fires_at

DETECTOR = FruitlessSearch()
Events = Sequence[ActionEvent | Sequence[ActionEvent]]


def search(second: float, result: str | None = "No matches found", **fields: Any) -> ActionEvent:
    return event(second, "search_code", args={"query": f"q{second:g}"}, output_head=result, **fields)


def grep(second: float, output: str = "") -> ActionEvent:
    return bash(second, f"grep -rn 'name_{second:g}' src", "rc=1: " if not output else None, output_head=output)


def severities(events: Events) -> str:
    """The severities of the findings, by their first letters."""
    return "".join(severity[0] for _, _, severity in fires_at(DETECTOR, events))


@pytest.mark.parametrize(
    ("events", "found"),
    [
        pytest.param([search(s) for s in range(9)], "", id="nine are below the count"),
        pytest.param([search(s) for s in range(10)], "m", id="ten are medium"),
        pytest.param([search(s) for s in range(30)], "m" * 6 + "h" * 14 + "c", id="sixteen are high, thirty critical"),
        pytest.param([grep(s) for s in range(10)], "m", id="by a program that ends without a word"),
        pytest.param([search(s, "[]") for s in range(10)], "m", id="an empty list"),
        pytest.param([search(s, None, output_bytes=0) for s in range(10)], "m", id="an empty result by its size"),
        pytest.param([search(s, None) for s in range(20)], "", id="results that nobody tells"),
        pytest.param([search(s, "main.py:3: no results") for s in range(20)], "", id="results that hold such words"),
        pytest.param([grep(s) if s != 5 else grep(s, "src/a.py:1") for s in range(14)], "", id="one found something"),
        pytest.param(
            [search(s) if s != 5 else bash(s, "sed -i s/a/b/ a.py", output_head="") for s in range(14)],
            "",
            id="something was done in between",
        ),
        pytest.param(
            [search(s) if s % 2 else event(s, "think", args={"thought": f"{s}"}, output_head="") for s in range(20)],
            "m",
            id="thoughts in between",
        ),
        pytest.param([bash(s, f"touch {s}.txt", output_head="") for s in range(20)], "", id="programs without a word"),
        pytest.param(
            [event(s, "edit_file", args={"path": f"{s}"}, output_head="") for s in range(20)], "", id="writes"
        ),
        pytest.param([search(s, error="connection refused") for s in range(20)], "", id="errors, which are no answer"),
        pytest.param(
            [call(s, "search_code", args={"query": f"q{s}"}, output_head="0 results") for s in range(10)],
            "m",
            id="proposed and completed",
        ),
    ],
)
def test_fires(events: Events, found: str) -> None:
    assert severities(events) == found


def test_the_finding_says_what_was_seen() -> None:
    ((_, finding),) = findings(DETECTOR, [search(10 * s) for s in range(10)])
    assert (finding.code, finding.severity) == ("fruitless_search", Severity.MEDIUM)
    assert finding.values == {"looks": 10}
    assert finding.thresholds == {"medium": 10, "high": 16, "critical": 30}
    assert [e.event_id for e in finding.evidence] == [f"s1@{10 * s} search_code" for s in range(10)]
    assert finding.reason.startswith("10 lookups in a row found nothing, the last 10 in 90s, such as search_code")


def guess(second: float, answer: str | None = "Wrong flag!", action: str = "probe", **fields: Any) -> ActionEvent:
    return event(second, action, args={"flag": f"flag{{{second:g}}}"}, output_head=answer, **fields)


def guessing(events: Events) -> str:
    """The severities of what is said of guesses, by their first letters."""
    return "".join(severity[0] for _, code, severity in fires_at(DETECTOR, events) if code == "blind_guessing")


@pytest.mark.parametrize(
    ("events", "found"),
    [
        pytest.param([guess(s) for s in range(3)], "", id="three guesses"),
        pytest.param([guess(s) for s in range(9)], "mmhhcc", id="four are medium, six high, eight critical"),
        pytest.param(
            [guess(s, f"Incorrect password, {9 - s} attempts left") for s in range(4)], "m", id="other numbers"
        ),
        pytest.param(
            [guess(s, f"'{'abcd'[s]}' is incorrect") for s in range(4)], "m", id="the answer quotes the guess"
        ),
        pytest.param(
            [bash(s, f"echo {name} | ./check", output_head=f"{name}? Not quite") for s, name in enumerate("pqrs")],
            "m",
            id="a program's answer repeats the guess",
        ),
        pytest.param(
            [bash(s, f"curl -s h/login -d user=u{s}", output_head='{"error": "Access denied"}') for s in range(8)],
            "mmhhc",
            id="one name after another at a login",
        ),
        pytest.param(
            [
                e
                for s in range(0, 16, 2)
                for e in (event(s, "connect", output_head="Welcome"), guess(s + 1, "Try again"))
            ],
            "mmhh",
            id="between them the same as ever",
        ),
        pytest.param(
            [e for s in range(0, 16, 2) for e in (event(s, "think", output_head=f"idea {s}"), guess(s + 1))],
            "mmhhc",
            id="thoughts in between",
        ),
        pytest.param(
            [
                e
                for s in range(0, 16, 2)
                for e in (event(s, "read_file", f"path={s}", output_head="abcdefgh"[s // 2] * 9), guess(s + 1))
            ],
            "",
            id="something new was read before each",
        ),
        pytest.param(
            [
                e
                for s in range(0, 18, 2)
                for e in (bash(s, f"echo {s} > key", output_head=""), bash(s + 1, "./run", output_head="Wrong!"))
            ],
            "mmm",
            id="a change before each: half",
        ),
        pytest.param(
            [guess(s, "Too low" if s % 2 else "Too high") for s in range(12)], "", id="answers that lead somewhere"
        ),
        pytest.param(
            [guess(s, f"{word} is wrong here") for s, word in enumerate(("shape", "colour", "size", "weight") * 4)],
            "mmmm",
            id="different answers count by themselves",
        ),
        pytest.param(
            [guess(s, None, error="Wrong flag!") for s in range(9)], "", id="errors, which are counted as such"
        ),
        pytest.param(
            [guess(s, "Wrong flag! " + "The hint of the day is. " * 20) for s in range(9)], "", id="long answers"
        ),
        pytest.param([guess(s, "Busy, try again later") for s in range(9)], "", id="waiting"),
        pytest.param(
            [event(s, "write_file", f"path={s}", output_head="File created") for s in range(9)], "", id="files written"
        ),
        pytest.param(
            [event(s, "insert_row", f"id={s}", output_head="ok: 1 row") for s in range(9)], "", id="rows appended"
        ),
        pytest.param([event(s, "send_mail", f"to={s}", output_head="sent") for s in range(9)], "", id="messages sent"),
        pytest.param([event(s, "update_user", f"id={s}", output_head="updated") for s in range(9)], "", id="updates"),
        pytest.param(
            [bash(s, f"pytest tests/{s}.py", output_head="0 failed, 3 passed") for s in range(9)], "", id="test runs"
        ),
        pytest.param(
            [
                bash(s, f"grep -n wrong src/{s}.py", output_head=f"{s}: the {'abcdefghi'[s]} way is wrong")
                for s in range(9)
            ],
            "",
            id="reading of such words",
        ),
    ],
)
def test_guesses(events: Events, found: str) -> None:
    assert guessing(events) == found


def test_the_text_of_guesses() -> None:
    ((_, finding),) = findings(DETECTOR, [guess(s) for s in range(4)])
    assert (finding.code, finding.severity) == ("blind_guessing", Severity.MEDIUM)
    assert finding.reason == "4 calls received the same negative answer in 3s, such as probe unknown"
    assert finding.values == {"guesses": 4.0}


def submit(second: float, flag: str, answer: str = "Wrong flag!", **fields: Any) -> ActionEvent:
    return event(second, "submit_flag", args={"flag": flag}, output_head=answer, **fields)


def attempt(second: float, answer: str, command: str = "curl -s h/login -d user=u{}") -> ActionEvent:
    return bash(second, command.format(f"{second:g}"), output_head=answer, output_bytes=len(answer))


def kinds(events: Events) -> str:
    """The severities of what is said of submissions and of uniform answers, by their first letters."""
    codes = {"refused_submissions", "uniform_answers"}
    return "".join(severity[0] for _, code, severity in fires_at(DETECTOR, events) if code in codes)


@pytest.mark.parametrize(
    ("events", "found"),
    [
        pytest.param([submit(0, "a")], "", id="one is refused"),
        pytest.param([submit(0, "a"), submit(1, "b")], "", id="a second, other one is refused"),
        pytest.param([submit(0, "a"), submit(1, "a")], "m", id="the same one is refused again"),
        pytest.param([submit(0, "a"), submit(1, "b"), submit(2, "c")], "c", id="three are refused"),
        pytest.param([submit(s, f"{s}", "", error="incorrect flag") for s in range(3)], "c", id="refused by an error"),
        pytest.param(
            [e for s in range(3) for e in (submit(9 * s, f"{s}"), *(grep(9 * s + n, f"{s} {n}") for n in range(1, 8)))],
            "c",
            id="work in between, which did not help",
        ),
        pytest.param(
            [
                e
                for s in range(3)
                for e in (submit(20 * s, f"{s}"), *(grep(20 * s + n, f"{s} {n}") for n in range(1, 15)))
            ],
            "",
            id="far apart",
        ),
        pytest.param([submit(s, f"{s}", "Correct!") for s in range(4)], "", id="they are taken"),
        pytest.param(
            [submit(s, f"{s}", "Correct!" if s % 3 == 2 else "Wrong!") for s in range(9)], "", id="some are taken"
        ),
        pytest.param(
            [event(s, "submit_answer", f"a={s}", output_head="Wrong!") for s in range(3)], "", id="answers of a quiz"
        ),
        pytest.param([submit(s, f"{s}", f"Your score is {s}") for s in range(4)], "", id="they get points"),
        pytest.param([event(s, "submit_form", f"n={s}", output_head="created") for s in range(4)], "", id="forms"),
    ],
)
def test_refused_submissions(events: Events, found: str) -> None:
    assert kinds(events) == found


PAGE = "<html><body>Please sign in to see what is here</body></html>"


@pytest.mark.parametrize(
    ("events", "found"),
    [
        pytest.param([attempt(s, PAGE) for s in range(6)], "", id="six different calls, one answer"),
        pytest.param([attempt(s, PAGE) for s in range(12)], "mmmhhc", id="seven are medium, ten high, twelve critical"),
        pytest.param([attempt(s, PAGE + f" id={s:02d}") for s in range(7)], "m", id="the answers differ in numbers"),
        pytest.param([attempt(0, PAGE) for _ in range(7)], "", id="the same call, which is a repetition"),
        pytest.param([attempt(s, f"{PAGE[:s]}{'abcdefghijkl'[s]}{PAGE}") for s in range(12)], "", id="other answers"),
        pytest.param([attempt(s, "x" * s + " " + PAGE) for s in range(0, 120, 10)], "", id="answers of other sizes"),
        pytest.param([attempt(s, '{"status": "UP"}', "curl -s h{}/health") for s in range(12)], "", id="all is well"),
        pytest.param(
            [attempt(s, "loaded 1000 rows", "python load.py --day {}") for s in range(12)],
            "",
            id="one day after another",
        ),
        pytest.param([attempt(s, "created item", "aws x create --id {}") for s in range(12)], "", id="receipts"),
        pytest.param(
            [attempt(s, "pod is Running", "kubectl get pod p{}") for s in range(12)], "", id="a sweep over pods"
        ),
        pytest.param(
            [e for s in range(7) for e in (attempt(4 * s, PAGE), *(grep(4 * s + n, f"{s} {n}") for n in (1, 2)))],
            "m",
            id="with other calls in between",
        ),
        pytest.param(
            [e for s in range(12) for e in (attempt(9 * s, PAGE), *(grep(9 * s + n, f"{s} {n}") for n in range(1, 8)))],
            "",
            id="far apart",
        ),
    ],
)
def test_uniform_answers(events: Events, found: str) -> None:
    assert kinds(events) == found


_PIECES = (
    *(
        "Wrong",
        "incorrect",
        "Nope",
        "not right",
        "not",
        " ",
        "access denied",
        "try again",
        "try again later",
        "no",
        "No",
    ),
    *(
        "unauthorised",
        "invalid flag",
        "bad pin",
        "unknown user",
        "login failed",
        "unlocking unsuccessful",
        "fail",
        "now",
    ),
    *("!", ".", "\n", "_", "1", "\x1b[31m", "\u017f", "wr", "ong", "piano", "ok"),
)


@given(st.lists(st.sampled_from(_PIECES), max_size=6).map("".join))
def test_the_first_look_for_a_no_passes_every_text_that_says_it(text: str) -> None:
    says = fruitless_search._NO.search(fruitless_search._ANSI.sub("", text).strip()) is not None
    assert fruitless_search._says_no(text) is says
