from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import pytest

from haltline.detectors.session.repetition import Repetition
from haltline.schemas.events import ActionEvent, Effect, Kind
from haltline.schemas.findings import Finding, Severity
from tests.builders import Watched, bash, call, event, evidence, findings, in_turn, severities
from tests.cases import cases

DETECTOR = Repetition()
Calls = Sequence[ActionEvent | Sequence[ActionEvent]]


def look(second: float, result: str | None = "same", action: str = "get_order", **args: Any) -> ActionEvent:
    """The same read unless an argument says otherwise, with its result; None: nobody tells it."""
    return event(second, action, args={"order_id": 7} | args, output_head=result)


def edit(second: float) -> ActionEvent:
    return bash(second, f"sed -i 's/{second:g}/b/' main.py", output_head="")


def try_out(second: float, output: str = "1 failed, 3 passed") -> ActionEvent:
    return bash(second, "python -m pytest -q", output_head=output)


def times(count: int, make: Any, **more: Any) -> list[Any]:
    return [make(second, **more) for second in range(count)]


@cases(
    "events, found",
    {
        "two are below the count": (times(2, look), ""),
        "three reads are medium": (times(3, look), "m"),
        "four and more reads are critical": (times(6, look), "mccc"),
        "five updates": ([look(s, action="update_order", state="x") for s in range(5)], "mhc"),
        "five equal messages": (
            [event(s, "send_email", args={"to": "a@example.org"}, output_head="sent") for s in range(5)],
            "mhc",
        ),
        "five equal writes": (
            [event(s, "write_file", args={"path": "a", "content": "b"}, output_head="ok") for s in range(5)],
            "mcc",
        ),
        "three deletes": ([event(s, "delete_asset", "asset_id=a", output_head="deleted") for s in range(3)], "mc"),
        "a tool of which nothing is known may go further": (
            [event(s, "submit", args={"answer": "B"}, output_head="correct") for s in range(7)],
            "mmh",
        ),
        "but not one that answers at length": (
            [event(s, "look_customer_up", "id=7", output_head="a customer " * 9) for s in range(5)],
            "mcc",
        ),
        "a key that is pressed": (
            [event(s, "press_key", "key=Tab", output_head="ok") for s in range(41)],
            "m" * 10 + "h" * 20 + "cc",
        ),
        "a test run again and again with nothing done": ([try_out(s) for s in range(4)], "mc"),
        "a command that only prints": ([bash(s, "echo done", output_head="done") for s in range(12)], "m" * 9 + "h"),
        "one that prints what it computes": ([bash(s, "echo $(ls)", output_head="a") for s in range(4)], "mc"),
        "a pager: another result each time": ([look(s, str(s)) for s in range(30)], ""),
        "a percentage that grows": ([look(s, f"{s}%") for s in range(30)], ""),
        "other arguments": ([look(s, page=s) for s in range(30)], ""),
        "each result twice": ([look(s, f"page {s // 2}") for s in range(30)], ""),
        "two results in turn tell nothing new": ([look(s, "ab"[s % 2]) for s in range(8)], "mcccc"),
        "slowly, but with nothing else in between": ([look(s * 50) for s in range(4)], "mc"),
        "three, and then another result": ([look(s, result) for s, result in enumerate("xxxy")], "m"),
        "in whatever order they come": ([look(3 - s) for s in range(4)], "mc"),
        "proposed, completed": ([call(s, "get_order", "order=1", output_head="x") for s in range(4)], "mc"),
    },
)
def test_counts(events: Calls, found: str) -> None:
    assert severities(DETECTOR, events) == found


def rounds(count: int, *makes: Any) -> list[ActionEvent]:
    """So many rounds of calls, each a second after the other."""
    return in_turn(range(0, count * len(makes), len(makes)), *makes)


def other(second: float) -> ActionEvent:
    return event(second, "read_file", f"path=/srv/{second:g}", output_head=f"text {second:g}")


@cases(
    "events, found",
    {
        "a test after each edit is work": (rounds(12, edit, try_out), ""),
        "with something learned in between each counts a quarter": (rounds(8, other, look), ""),
        "and nine are a hint": (rounds(10, other, look), "mm"),
        "a new thought before each call changes nothing": (
            rounds(6, lambda s: event(s, "think", args={"thought": f"let me see {s}"}, output_head="ok"), look),
            "mccc",
        ),
        "a search that finds nothing is no news, and repeats itself": (
            rounds(6, lambda s: bash(s, "grep -rn x src", output_head="", output_bytes=0), look),
            "mmccccc",
        ),
        "a change begins the count anew": ([*times(2, look), edit(2), look(3), look(4)], ""),
        "a program that failed may have changed something before": (
            [*times(2, look), bash(2, "sed -i s/a/b/ x && ./t", "sed: no such file"), look(3)],
            "",
        ),
        "the same change again is none": (
            rounds(4, lambda s: bash(s, "sed -i s/a/b/ x", output_head=""), look),
            "mmc",
        ),
        "with too many others in between": (
            [look(0), *(other(i) for i in range(1, 23)), look(23), *(other(i) for i in range(24, 46)), look(90)],
            "",
        ),
        "within neither the time nor the last actions": (
            in_turn(range(0, 4000, 1000), look, *[other] * 19),
            "",
        ),
    },
)
def test_weighs_what_happened_in_between(events: Calls, found: str) -> None:
    assert severities(DETECTOR, events) == found


@cases(
    "events, found",
    {
        "nothing": ([look(s, "x", action="get", error="denied") for s in range(0)], ""),
        "four times the same failing call": (
            [event(s, "create_order", args={"item": 1}, error="Error: user not found") for s in range(4)],
            "mc",
        ),
        "what is not available will not be either": (
            [event(s, "update_order", "id=1", error="Error: flight HAT030 not available") for s in range(4)],
            "mc",
        ),
        "of an unknown tool too": ([event(s, "submit", args={"x": 1}, error="denied") for s in range(4)], "mc"),
        "with an address and a line that vary, one later: the second tells that they do": (
            [
                event(s, "submit", args={"x": 1}, error=f"RuntimeError: bad handle 0x7f{s:04x} at line {s}")
                for s in range(5)
            ],
            "mc",
        ),
        "an error that tells of progress": (
            [
                event(s, "submit", args={"x": 1}, error=f"{9 - s} checks are left, not ready to submit")
                for s in range(5)
            ],
            "",
        ),
    },
)
def test_failing_calls(events: Calls, found: str) -> None:
    assert severities(DETECTOR, events) == found


@cases(
    "make",
    {
        "a duration": lambda s: look(s, f"1 passed in {s}.31s\n"),
        "a time": lambda s: look(s, f'{{"state": "on", "at": "2025-01-01T10:00:{s:02d}Z"}}'),
        "an id": lambda s: look(s, f'{{"id": "4f1d09aa-0000-4000-8000-{s:012d}"}}'),
        "the length of a duration, behind what is published of a long output": lambda s: bash(
            s,
            "pytest",
            output_head="== test session starts ==",
            output_bytes=900 + s % 3,
            output_digest=f"{s:016x}",
        ),
    },
)
def test_what_varies_in_the_result_costs_one_more_call(make: Any) -> None:
    assert severities(DETECTOR, [make(s) for s in range(5)]) == "mc"


def test_results_that_nobody_tells_count_half() -> None:
    found = findings(DETECTOR, [look(s, None) for s in range(9)])
    assert [f.severity for _, f in found] == [Severity.MEDIUM, Severity.MEDIUM, Severity.CRITICAL, Severity.CRITICAL]
    assert found[0][1].confidence < 0.6


def test_a_session_that_tells_no_results_at_all_is_judged_by_its_attempts() -> None:
    attempts = [look(s, None).model_copy(update={"kind": Kind.PROPOSED, "outcome": None}) for s in range(8)]
    assert severities(DETECTOR, attempts) == "mmc"


def test_identical_calls_of_one_model_turn_are_one() -> None:
    calls = [call(0, "get_order", "order=1", output_head="x", took_s=s + 1) for s in range(1)]
    turn = [
        [e.model_copy(update={"event_id": f"{e.event_id} {n}", "call_id": f"c{n}"}) for e in pair]
        for n, pair in enumerate(calls * 6)
    ]
    proposed, completed = ([pair[i] for pair in turn] for i in (0, 1))
    assert severities(DETECTOR, [*proposed, *completed]) == ""
    assert severities(DETECTOR, list(chain.from_iterable(turn))) == ""


@pytest.mark.parametrize("took_s", [0.05, 0.0])
def test_a_call_made_again_after_its_result_counts_however_fast(took_s: float) -> None:
    loop = [call(s * took_s, "get_order", "order=1", output_head="x", took_s=took_s) for s in range(6)]
    events = [
        e.model_copy(update={"event_id": f"{e.event_id} {n}", "call_id": f"c{n}"})
        for n, pair in enumerate(loop)
        for e in pair
    ]
    assert severities(DETECTOR, events) == "mccc"


def test_a_call_that_was_cancelled_with_another_one_was_not_made() -> None:
    cancelled = "<tool_use_error>Sibling tool call errored</tool_use_error>"
    assert severities(DETECTOR, [call(s * 10, "get_order", "order=1", cancelled) for s in range(6)]) == ""


@cases(
    "action, found",
    {
        "a debugger": ("debug_step", ""),
        "a debugger that is named in one word": ("session.debugContinue", ""),
        "a pager": ("scroll_down", ""),
        "a cursor": ("next_page", ""),
        "what only looks": ("list_processes", "mcc"),
    },
)
def test_a_tool_that_steps_through_something_is_judged_by_every_number(action: str, found: str) -> None:
    answers = [f"stopped at 0x40{n:02x}, pid: {n} " + "." * 80 for n in range(6)]
    assert severities(DETECTOR, [event(n, action, output_head=text) for n, text in enumerate(answers)]) == found


def test_what_steps_or_was_broken_off_is_judged_by_what_it_printed() -> None:
    typed = [bash(n, "stepi", output_head=f"0x40{n:02x} in main ()") for n in range(6)]
    assert severities(DETECTOR, typed) == ""
    assert (
        severities(DETECTOR, [bash(n, "gdb -batch ./a", output_head=f"0x40{n:02x} in main ()") for n in range(6)])
        == "mcc"
    )
    reported = [f"epoch {n}" for n in range(6)]
    calls = [bash(n, "./train", "command timed out", outcome="timeout", output_head=t) for n, t in enumerate(reported)]
    assert severities(DETECTOR, calls) == ""
    assert (
        severities(DETECTOR, [bash(n, "./train", "command timed out", outcome="timeout") for n in range(6)]) == "mccc"
    )


def between(*edits: ActionEvent) -> list[ActionEvent]:
    """A test that is run again after each edit, with the same result."""
    return [e for n, edit in enumerate(edits) for e in (try_out(3 * n), edit)] + [try_out(3 * len(edits))]


@cases(
    "edit, found",
    {
        "a command that failed": (lambda s: bash(s, f"sed -i s/{s}/b/ a.py", "no such file"), "mcc"),
        "that wrote before it failed": (lambda s: bash(s, f"sed -i s/{s}/b/ a.py && python {s}", "no"), ""),
        "one that did not fail": (lambda s: bash(s, f"sed -i s/{s}/b/ a.py", output_head=""), ""),
        "an edit that says that it changed nothing": (
            lambda s: event(s, "edit_file", f"path={s}", output_head="No replacement was performed"),
            "mcc",
        ),
        "an edit": (lambda s: event(s, "edit_file", f"path={s}", output_head="edited"), ""),
    },
)
def test_what_changed_nothing_does_not_begin_anew(edit: Callable[[int], ActionEvent], found: str) -> None:
    assert severities(DETECTOR, between(*(edit(3 * n + 1) for n in range(4)))) == found


PAGE = "Here is a screenshot of [Weather history](https://weather.example.org/history). The viewport shows 68%."


def click(second: float, action: str = "click", page: str = PAGE, size: int = 900) -> ActionEvent:
    """What came back is longer than what is published of it, and differs somewhere behind that."""
    digest = f"{round(second):016x}"
    return event(
        second, action, args={"on": "Month"}, output_head=page, output_bytes=size + round(second), output_digest=digest
    )


@cases(
    "events, found",
    {
        "three clicks": (times(3, click), ""),
        "a click that leads nowhere": (times(11, click), "mmhhhhcc"),
        "scrolling is meant to be repeated": (times(11, click, action="scroll_down"), ""),
        "a look that may have changed": (times(11, click, action="get_page"), ""),
        "a beginning that says nothing": (times(11, click, page="ok"), ""),
        "another page each time": ([click(s, page=f"{s:04d} {PAGE}") for s in range(11)], ""),
        "two in turn": (rounds(9, click, lambda s: click(s, "tap")), ""),
    },
)
def test_clicks_of_which_nothing_is_seen(events: Calls, found: str) -> None:
    assert severities(DETECTOR, events) == found


@cases(
    "make",
    {
        "a tool that polls": lambda s: event(s, "job_status", args={"job": 1}, output_head="x"),
        "a hint": lambda s: event(s, "get_x", args={"job": 1}, output_head="x", effect=Effect.POLL),
        "a result that is not finished": lambda s: look(s, '{"status": "running"}'),
        "a minute and more of doing nothing before each": lambda s: look(s * 70),
        "a command that sleeps": lambda s: bash(s, "sleep 5; cat x", output_head="x"),
        "a service that does not answer yet": lambda s: bash(s, "curl x", "curl: (7) Connection refused"),
    },
)
def test_waiting_is_left_to_another_detector(make: Any) -> None:
    assert severities(DETECTOR, [make(s) for s in range(9)]) == ""


def test_the_finding_tells_what_was_repeated() -> None:
    watched = Watched(DETECTOR)
    events = [bash(s, "python -m pytest -q", output_head="1 failed") for s in (0, 10, 25)]
    assert [watched(e) for e in events[:2]] == [None, None]
    assert watched(events[2]) == Finding(
        detector="repetition",
        code="identical_calls",
        severity=Severity.MEDIUM,
        confidence=0.75,
        reason="3 times the same read call with the same result in 25s: bash python pytest",
        evidence=evidence(events),
        values={"calls": 3, "counted": 3.0, "sort": "read", "fingerprint": watched.calls.recall.trail[-1][:12]},
        thresholds={"medium": 3, "high": 4, "critical": 4, "window_s": 60.0, "last_actions": 20},
    )
    assert DETECTOR.near(watched.state) == 1.0


def edited(second: float) -> tuple[ActionEvent, ActionEvent]:
    return call(second, "edit_file", args={"path": "/srv/main.py", "new": "abcdef"[int(second / 10)]}, output_head="ok")


def checked(second: float) -> tuple[ActionEvent, ActionEvent]:
    return call(second, "bash", args={"command": "ruff check ."}, output_head="All checks passed!")


@cases(
    "disturb, found",
    {
        "in order": (lambda proposed, completed: (proposed, completed), ""),
        "its proposal comes late": (lambda proposed, completed: (completed, proposed), ""),
        "its result is lost": (lambda proposed, _: (proposed,), ""),
        "its proposal is lost": (lambda _, completed: (completed.model_copy(update={"action": "edit_file"}),), ""),
        "there was no edit": (lambda *_: (), "mccc"),
    },
)
def test_a_check_after_each_edit_is_work_though_the_edit_is_lost_or_late(disturb: Any, found: str) -> None:
    rounds = [(*disturb(*edited(10 * n)), *checked(10 * n + 5)) for n in range(6)]
    assert severities(DETECTOR, rounds) == found


def test_the_same_call_is_no_change_of_its_own_though_its_result_is_lost() -> None:
    calls = [call(s, "bash", args={"command": "touch a"}, output_head="") for s in range(6)]
    assert severities(DETECTOR, [pair if second != 2 else pair[:1] for second, pair in enumerate(calls)]) == "mhc"


def random_answer(second: float, action: str = "get_nonce", head: str | None = None, **more: Any) -> ActionEvent:
    """Some bytes that look random, always as many."""
    blob = f"{round(second) * 7919 + 1:07x}f" * 4
    answer = f"Your ciphertext is {blob}, go on:" if head is None else head
    return event(second, action, args={"q": "AAAA"} | more, output_head=answer, output_bytes=len(answer))


def retouched(second: float, **more: Any) -> ActionEvent:
    return event(second, "edit_file", args={"path": "/srv/solve.py", "old": "key", "new": f"key = {second:g}"} | more)


@cases(
    "events, found",
    {
        "a random number, and another one": (times(2, random_answer), ""),
        "five random answers": (times(5, random_answer), ""),
        "twelve random answers": (times(12, random_answer), "mmhhhhc"),
        "a tool to step with": (times(12, random_answer, action="next_block"), ""),
        "a debugger that steps": (
            [bash(s, "gdb -x next", output_head=f"rip {round(s) * 7919:016x}a", output_bytes=21) for s in range(12)],
            "",
        ),
        "a counter": ([random_answer(s, head=f"step {s:04d} of 9000") for s in range(12)], ""),
        "other sizes": ([random_answer(s, head=f"{'x' * s} {s:032x}a") for s in range(0, 60, 5)], ""),
        "waiting": (times(12, random_answer, action="poll_job"), ""),
        "something was changed in between": (rounds(12, random_answer, edit), ""),
        "five edits with other numbers": (times(5, retouched), ""),
        "ten edits with other numbers": (times(10, retouched), "mmhhc"),
        "edits with other numbers, a run after each": (rounds(8, retouched, other), "mmh"),
        "edits with other words": ([retouched(s, new="abcdefghijkl"[s]) for s in range(12)], ""),
        "edits of different files": ([retouched(s, path=f"/srv/{s}.py") for s in range(12)], ""),
        "the very same edit, a run after each": (
            rounds(5, lambda s: retouched(s, new="x"), lambda s: bash(s, "./run", output_head=f"{s}")),
            "mcc",
        ),
        "equal edits far apart": (
            in_turn(range(0, 396, 99), lambda s: retouched(s, new="x"), *[lambda s: bash(s, f"ls {s}")] * 9),
            "",
        ),
        "two edits that undo each other": (
            rounds(5, lambda s: retouched(s, new="x"), lambda s: retouched(s, new="y")),
            "mmcccc",
        ),
        "rows are appended": (
            [event(s, "insert_row", args={"table": "t", "value": s}, output_head="ok") for s in range(12)],
            "",
        ),
        "one record after another": (
            [event(s, "update_user", args={"user_id": s, "limit": 5}, output_head="updated") for s in range(12)],
            "",
        ),
        "edits far apart": (in_turn(range(0, 360, 30), retouched, other, other, other), ""),
    },
)
def test_random_answers_and_edits_of_numbers(events: Calls, found: str) -> None:
    assert severities(DETECTOR, events) == found
