import pytest

from haltline.detectors.session.error_repetition import ErrorRepetition
from haltline.schemas.events import ActionEvent, Outcome
from tests.builders import (
    Events,
    bash,
    call,
    cases,
    each,
    event,
    findings,
    in_turn,
    severities,
)

DETECTOR = ErrorRepetition(in_a_row=(999, 999, 999))
"""Counts equal errors only; for failures of any kind see `test_steps_in_a_row_that_fail`."""
Calls = list[tuple[ActionEvent, ActionEvent]]
GONE = "cat: /srv/data/a.csv: No such file or directory"


def errors(*seconds: float, error: str = GONE) -> list[ActionEvent]:
    """The same error of calls on different targets."""
    return [event(s, "read_file", f"path=/srv/{s:g}", error) for s in seconds]


def by_turns(count: int, *texts: str) -> list[ActionEvent]:
    """Errors of as many tools, one after the other and again from the first."""
    tools = len(texts)
    return [event(s, f"tool_{s % tools}", f"x={s}", texts[s % tools]) for s in range(count)]


def listed(first: float, count: int, every_s: float) -> list[ActionEvent]:
    """So many calls that succeed."""
    return [event(first + n * every_s, "list_files") for n in range(1, count + 1)]


def failing_test(second: float) -> ActionEvent:
    return bash(second, "pytest", "AssertionError: 1 != 2")


def edit(second: float) -> ActionEvent:
    return bash(second, f"sed -i 's/{second:g}/b/' main.py")


def not_installed(*programs: str) -> list[ActionEvent]:
    return [bash(s, f"{p} {s}.png", f"bash: {p}: command not found") for s, p in enumerate(programs)]


def lookup(second: float, error: str | None = None, outcome: Outcome | None = Outcome.ERROR) -> ActionEvent:
    return event(second, "lookup", f"x={second}", error, outcome=outcome)


def status(second: float, error: str | None = "connection refused") -> ActionEvent:
    """A call that waits for a service."""
    return event(second, "service_status", "x=1", error)


def turn(second: float, error: str | None = GONE, count: int = 5, *, apart_s: float = 0.2, took_s: float = 2) -> Calls:
    """Parallel calls of one model turn, as recordings have them: each result behind its proposal."""
    return [
        call(second + n * apart_s, "read_file", f"path=/srv/{second}/{n}", error, took_s=took_s) for n in range(count)
    ]


def unread(second: float) -> ActionEvent:
    return event(second, "format_error", None, "format: expected exactly one bash block", args={"blocks": 2})


@cases(
    "events, found",
    {
        "three are medium": (errors(0, 5, 10), "m"),
        "six and more are critical": (errors(0, 5, 10, 15, 20, 25, 30), "mhhcc"),
        "looking for a program that is installed": (not_installed("exiftool", "file", "zsteg"), ""),
        "the same program that is not installed": (not_installed(*["zsteg"] * 3), "m"),
        "two errors in turn": (by_turns(6, "not available", "denied by policy"), "mm"),
        "only the last twelve errors are looked at": (
            by_turns(26, "first error", *(f"other failure {letter}" for letter in "abcdefghijkl")),
            "",
        ),
        "within neither the time nor the last actions": (in_turn((0, 100, 200), errors, lambda s: listed(s, 9, 1)), ""),
        "hours apart, but one action after the other": (errors(0, 1000, 2000), "m"),
        # what happened in between
        "edit and test: four failures are work": (in_turn(range(0, 40, 10), failing_test, edit), ""),
        "edit and test: nine failures of the same kind are not": (
            in_turn(range(0, 120, 10), failing_test, edit),
            "mmhhhhcc",
        ),
        "edit and test: ever fewer tests fail": (
            in_turn(range(0, 100, 10), edit, lambda s: bash(s, "pytest", f"{100 - s} failed, {s} passed")),
            "",
        ),
        "edit and test: the same assertion, with other facts printed": (
            in_turn(
                range(0, 300, 10),
                lambda s: bash(s, "pytest -s", "AssertionError: 1 != 2", output_head=f"vat: {s}.5\nassert 1 == 2"),
                edit,
            ),
            "",
        ),
        "the same test with nothing changed in between": (each(3, failing_test), "m"),
        "with something that succeeded in between each counts half": (
            in_turn(range(0, 70, 10), errors, lambda s: event(s, "read_file", "path=/ok")),
            "mmh",
        ),
        "failing tests whose report is piped are no success": (
            in_turn(
                range(0, 60, 10),
                lambda s: bash(s, "npm test", "Tests: 1 failed, 3 passed"),
                lambda s: bash(s, f"npm test | tail -{s}", output_head="Tests: 1 failed, 3 passed"),
            ),
            "mhhc",
        ),
        "the same call got over it": (
            in_turn(range(0, 50, 10), lambda s: bash(s, "curl api", "curl: refused"), lambda s: bash(s, "curl api")),
            "",
        ),
        # what is an error
        "a search that finds nothing": (each(9, bash, "grep x y", "exit code 1"), ""),
        "a tool that fails without a word": (each(3, lookup), "m"),
        "proposed and completed": ([call(s, "read_file", f"path=/{s}", GONE) for s in range(3)], "m"),
        # waiting
        "waits its time": (each(range(0, 600, 10), status), ""),
        "waits for ever": (each(range(0, 660, 10), status), "mhhc"),
        "a wait that its time ended, and that gets on": (
            [
                bash(s * 40, "kubectl rollout status d", f"{s // 9} of 7 updated\ntimed out waiting for the condition")
                for s in range(60)
            ],
            "",
        ),
        "a command that waits": (each(range(0, 600, 10), bash, "sleep 5; curl h", "curl: (7) connection refused"), ""),
        # calls of one model turn
        "five that fail alike are one failure": (turn(0), ""),
        "three turns are three": ([*turn(0), *turn(10), *turn(20)], "m"),
        "what was cancelled with another one is no failure": (
            [c for n in range(4) for c in (*turn(n * 10, count=1), *turn(n * 10 + 0.1, "Sibling tool call errored"))],
            "mh",
        ),
        # turns that could not be read
        "with calls in between": ([unread(s) if s % 5 else bash(s, "ls") for s in range(40)], "mm" * 8),
        "a tool that is known says so of its own work": (
            [bash(s, "make", "could not parse output of the compiler", output_head=f"{s}") for s in range(6)],
            "mhhc",
        ),
    },
)
def test_counts(events: Events, found: str) -> None:
    assert severities(DETECTOR, events) == found


def whatever(second: float) -> ActionEvent:
    """Fails in its own way."""
    return bash(second, f"./configure --{'abcdefghijklmnopqrstuvwxyz'[int(second)]}x", f"E{second * 7919:x}: failed")


@cases(
    "events, found",
    {
        "eight are medium and ten critical, whatever they are": (each(12, whatever), "mhccc"),
        "something that works begins the row anew": ([*each(7, whatever), bash(7, "ls"), *each(7, whatever)], ""),
        "an edit too, so that a debugger is at work": (in_turn(range(0, 24, 2), whatever, edit), ""),
        "a plan and a thought do not": (
            in_turn(range(0, 20, 2), whatever, lambda s: event(s, "TodoWrite", args={"todos": [s]})),
            "mhc",
        ),
    },
)
def test_steps_in_a_row_that_fail(events: Events, found: str) -> None:
    only = ErrorRepetition(medium=99, high=99, critical=99)
    assert severities(only, events) == found


WORDS = ("command not found", "still not found", "another error", "no such thing", "broken pipe", "bad magic")


def again(second: float, command: str = "make-it") -> ActionEvent:
    """The same call, whose error is worded differently each time."""
    return bash(second, command, WORDS[int(second) % len(WORDS)])


@cases(
    "events, found",
    {
        "three are a hint, four are critical": (each(6, again), "mccc"),
        "another failure in between": ([again(0), again(1), again(2, "other"), again(3), again(4)], ""),
        "an edit in between": (in_turn(range(0, 12, 2), again, edit), ""),
        "a minute later each time: it waits for something": ([again(s * 61) for s in range(6)], ""),
        "a thought in between": (
            in_turn(range(0, 8, 2), again, lambda s: event(s, "think", args={"thought": s})),
            "mc",
        ),
    },
)
def test_the_same_call_fails_in_other_words(events: Events, found: str) -> None:
    only = ErrorRepetition(medium=99, high=99, critical=99)
    assert severities(only, events) == found


def broken_off(second: float, text: str, outcome: Outcome = Outcome.TIMEOUT) -> ActionEvent:
    """A program that was stopped for taking too long, with what it had printed until then."""
    error = "command timed out"
    return bash(second, "./train", error, outcome=outcome, output_head=text, output_bytes=len(text))


@pytest.mark.parametrize("outcome", [Outcome.TIMEOUT, Outcome.ERROR])
@cases(
    "reported, found",
    {
        "that tells something else each time is at work": ([f"epoch {n}" for n in range(8)], ""),
        "that tells the same each time has failed": (["epoch 1"] * 6, "mhhc"),
        "that tells only the time has failed": ([f"hangs since 12:00:0{n}" for n in range(6)], "mhhc"),
    },
)
def test_a_program_that_takes_too_long(reported: list[str], outcome: Outcome, found: str) -> None:
    assert severities(DETECTOR, [broken_off(10 * n, text, outcome) for n, text in enumerate(reported)]) == found


def rewritten(second: float, answer: str) -> tuple[ActionEvent, ActionEvent]:
    return call(second, "edit_file", args={"path": "/srv/a.py", "new": "x"}, output_head=answer)


@cases(
    "answers, found",
    {
        "the same edit with the same answer": (["edited"] * 6, "m"),
        "an edit with another answer": ([f"edited, {n} lines" for n in range(6)], ""),
        "an edit that changed nothing": ([f"no changes made ({n})" for n in range(6)], "mm"),
    },
)
def test_an_edit_that_changes_nothing_does_not_begin_anew(answers: list[str], found: str) -> None:
    calls = [
        c
        for n, result in enumerate(answers)
        for c in (bash(10 * n, "./t", GONE, output_head=f"try {n}"), rewritten(10 * n + 5, result))
    ]
    assert severities(DETECTOR, calls) == found


def test_a_service_that_is_at_fault_is_named() -> None:
    *_, (_, finding) = findings(DETECTOR, each(4, event, "get_order", None, "HTTP 503 Service Unavailable"))
    assert finding.code == "service_down"
    assert finding.reason.startswith("a service is down or refuses calls: 4 times the error 'http #")
