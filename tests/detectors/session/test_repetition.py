from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest

from haltline.detectors.session.repetition import Repetition
from haltline.schemas.events import ActionEvent
from tests.builders import Events, bash, call, cases, each, event, in_turn, severities

DETECTOR = Repetition()
PAGE = "Here is a screenshot of [Weather history](https://weather.example.org/history). The viewport shows 68%."


def look(second: float, result: str | None = "same", action: str = "get_order", **args: Any) -> ActionEvent:
    """The same read unless an argument says otherwise, with its result; None: nobody tells it."""
    return event(second, action, args={"order_id": 7} | args, output_head=result)


def edit(second: float) -> ActionEvent:
    return bash(second, f"sed -i 's/{second:g}/b/' main.py", output_head="")


def try_out(second: float, output: str = "1 failed, 3 passed") -> ActionEvent:
    return bash(second, "python -m pytest -q", output_head=output)


def other(second: float) -> ActionEvent:
    return event(second, "read_file", f"path=/srv/{second:g}", output_head=f"text {second:g}")


def touch(second: float) -> tuple[ActionEvent, ...]:
    return call(second, "bash", args={"command": "touch a"}, output_head="")


def submit(second: float, error: str | None = None, result: str | None = None) -> ActionEvent:
    """A tool of which nothing is known."""
    return event(second, "submit", args={"answer": "B"}, error=error, output_head=result)


def click(second: float, action: str = "click", page: str = PAGE, size: int = 900) -> ActionEvent:
    """A call whose result is longer than its published part, and differs after that."""
    length, digest = size + round(second), f"{round(second):016x}"
    return event(second, action, args={"on": "Month"}, output_head=page, output_bytes=length, output_digest=digest)


def stop_at(second: float, action: str) -> ActionEvent:
    """Stops somewhere else each time."""
    return event(second, action, output_head=f"stopped at 0x40{second:02x}, pid: {second} " + "." * 80)


def random_answer(second: float, action: str = "get_nonce", head: str | None = None, **more: Any) -> ActionEvent:
    """Some bytes that look random, always as many."""
    blob = f"{round(second) * 7919 + 1:07x}f" * 4
    answer = f"Your ciphertext is {blob}, go on:" if head is None else head
    return event(second, action, args={"q": "AAAA"} | more, output_head=answer, output_bytes=len(answer))


def retouched(second: float, **more: Any) -> ActionEvent:
    return event(second, "edit_file", args={"path": "/srv/solve.py", "old": "key", "new": f"key = {second:g}"} | more)


def rounds(count: int, *makes: Any) -> list[ActionEvent]:
    """So many rounds of calls, each a second after the other."""
    return in_turn(range(0, count * len(makes), len(makes)), *makes)


@cases(
    "events, found",
    {
        "four and more reads are critical": (each(6, look), "mccc"),
        "five equal messages": (each(5, event, "send_email", args={"to": "ada"}, output_head="sent"), "mhc"),
        "a tool of which nothing is known may go further": (each(7, submit, None, "correct"), "mccc"),
        "a tool that moves something by a little": (each(9, event, "mcp__lamp__turn_up", output_head="ok"), ""),
        "but not one that answers at length": (each(5, submit, None, "a customer " * 9), "mcc"),
        "a key that is pressed": (
            each(41, event, "press_key", "key=Tab", output_head="ok"),
            "m" * 10 + "h" * 20 + "cc",
        ),
        "a test run again and again with nothing done": (each(4, try_out), "mc"),
        "a command that only prints": (each(12, bash, "echo done", output_head="done"), "m" * 6 + "hhhc"),
        "one that prints what it computes": (each(4, bash, "echo $(ls)", output_head="a"), "mc"),
        "a pager: another result each time": ([look(s, str(s)) for s in range(30)], ""),
        # what happened in between
        "a test after each edit is work": (rounds(12, edit, try_out), ""),
        "with something learned in between each counts a quarter": (rounds(8, other, look), ""),
        "a program that failed may have changed something before": (
            [*each(2, look), bash(2, "sed -i s/a/b/ x && ./t", "sed: no such file"), look(3)],
            "",
        ),
        "the same change again is none": (rounds(4, lambda s: bash(s, "sed -i s/a/b/ x", output_head=""), look), "mmc"),
        "the same change whose result is lost": ([touch(s) if s != 2 else touch(s)[:1] for s in range(6)], "mhc"),
        "within neither the time nor the last actions": (in_turn(range(0, 4000, 1000), look, *[other] * 19), ""),
        # failures
        "four times the same failing call": (each(4, event, "create_order", error="Error: user not found"), "mc"),
        "an error that tells of progress": (
            [submit(s, f"{9 - s} checks are left, not ready to submit") for s in range(5)],
            "",
        ),
        # what varies in the result costs one call more
        "an id": ([look(s, f'{{"id": "4f1d09aa-0000-4000-8000-{s:012d}"}}') for s in range(5)], "mc"),
        # a tool that steps through something is judged by every number
        "a debugger": (each(6, stop_at, "debug_step"), ""),
        "what only looks": (each(6, stop_at, "list_processes"), "mcc"),
        "a command that steps": ([bash(n, "stepi", output_head=f"0x40{n:02x} in main ()") for n in range(6)], ""),
        "a debugger's script": ([bash(n, "gdb -batch ./a", output_head=f"0x40{n:02x} in m") for n in range(6)], "mcc"),
        "broken off, with what it printed": (
            [bash(n, "./train", "timed out", outcome="timeout", output_head=f"epoch {n}") for n in range(6)],
            "",
        ),
        # clicks of which nothing is seen
        "a click that leads nowhere": (each(11, click), "mmhhhhcc"),
        "scrolling is meant to be repeated": (each(11, click, action="scroll_down"), ""),
        # waiting is left to another detector
        "a tool that polls": (each(9, event, "job_status", args={"job": 1}, output_head="x"), ""),
        "a minute and more of doing nothing before each": (each(range(0, 630, 70), look), ""),
        # random answers, and edits of numbers
        "twelve random answers": (each(12, random_answer), "mmhhhhc"),
        "sixteen edits with other numbers": (each(16, retouched), "mmmmhhhhc"),
        "the very same edit, a run after each": (
            rounds(5, lambda s: retouched(s, new="x"), lambda s: bash(s, "./run", output_head=f"{s}")),
            "mcc",
        ),
        # command lines that do nothing
        "two that do nothing": ([bash(s, f": echo {s}") for s in range(2)], ""),
        "six that do nothing, whatever is done in between": (
            rounds(6, lambda s: bash(s, f": echo {s}"), other, edit),
            "mmhc",
        ),
        # results that are not recorded
        "a screenshot without its data": (
            each(
                9, event, "computer", args={"action": "screenshot"}, output_head='[{"type":"image","data":"omitted"}]'
            ),
            "",
        ),
        "a result that was cleared": (each(9, look, "[Old tool result content cleared]"), ""),
        # what looks new and is not
        "the same findings in another order": (
            [look(s, "\n".join(f"result {(n + s) % 5}" for n in range(5))) for s in range(5)],
            "mc",
        ),
        # another try each time
        "a connection that is opened again for another try": (
            rounds(
                9,
                lambda s: bash(s, "connect_start host 80", output_head="connected, welcome " * 9),
                lambda s: bash(s, f"connect_send {s}", output_head=f"wrong: {s}"),
            ),
            "",
        ),
    },
)
def test_counts(events: Events, found: str) -> None:
    assert severities(DETECTOR, events) == found


@cases(
    "events, found",
    {
        "four fifths if the tool reads": (each(6, look, None), "mcc"),
        "a quarter of half with others in between": (
            rounds(9, lambda s: look(s, None), lambda s: look(s, None, id=s)),
            "",
        ),
        "four fifths if nothing is known of the tool": (each(8, event, "ping_lamp", args={"lamp": 1}), "mmcc"),
    },
)
def test_results_that_nobody_tells_count_less(events: Events, found: str) -> None:
    assert severities(DETECTOR, events) == found


def numbered(calls: list[tuple[ActionEvent, ActionEvent]]) -> list[list[ActionEvent]]:
    """Each call with an id of its own."""
    return [
        [e.model_copy(update={"event_id": f"{e.event_id} {n}", "call_id": f"c{n}"}) for e in pair]
        for n, pair in enumerate(calls)
    ]


def test_identical_calls_of_one_model_turn_are_one() -> None:
    turn = numbered([call(0, "get_order", "order=1", output_head="x", took_s=1)] * 6)
    assert severities(DETECTOR, chain.from_iterable(zip(*turn, strict=True))) == ""
    assert severities(DETECTOR, turn) == ""


@pytest.mark.parametrize("took_s", [0.05, 0.0])
def test_a_call_made_again_after_its_result_counts_however_fast(took_s: float) -> None:
    loop = [call(s * took_s, "get_order", "order=1", output_head="x", took_s=took_s) for s in range(6)]
    assert severities(DETECTOR, numbered(loop)) == "mccc"


@cases(
    "edit, found",
    {
        "a command that failed": (lambda s: bash(s, f"sed -i s/{s}/b/ a.py", "no such file"), "mcc"),
        "that wrote before it failed": (lambda s: bash(s, f"sed -i s/{s}/b/ a.py && python {s}", "no"), ""),
        "an edit that says that it changed nothing": (
            lambda s: event(s, "edit_file", f"path={s}", output_head="No replacement was performed"),
            "mcc",
        ),
    },
)
def test_what_changed_nothing_does_not_begin_anew(edit: Callable[[float], ActionEvent], found: str) -> None:
    assert severities(DETECTOR, [*in_turn(range(0, 12, 3), try_out, edit), try_out(12)]) == found


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
