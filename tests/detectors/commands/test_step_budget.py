"""How much work a text makes, counted in calls: whoever wrote it, it is bounded, and what was left out is said."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haltline.detectors.commands import code_destructions, destructions, sql_destructions
from haltline.detectors.commands.model import MAX_COMMAND_CHARS
from haltline.detectors.commands.step_budget import MAX_STEPS, StepBudget
from haltline.detectors.features.call_destructions import is_read_whole
from haltline.schemas.policy import Reading
from tests.builders import cases

READERS: dict[Reading, Callable[[str], object]] = {
    Reading.SHELL: destructions,
    Reading.SQL: sql_destructions,
    Reading.PLAIN: code_destructions,
}
CALLS_OF_A_STEP = 30
"""Calls of functions, Python's own among them, that one step makes at most."""
LOSS = {
    Reading.SHELL: "rm -rf /data/fact_sales",
    Reading.SQL: "DROP TABLE fact_sales",
    Reading.PLAIN: "os.remove('/data/fact_sales')",
}
PADDING = {
    Reading.SHELL: ["echo a;", "ls | wc -l;", "x=$(echo 1);", "for a in 1 2; do echo $a; done;", "sudo ls;",
                    "(cd /a; ls);",
                    "bash -c 'ls';", "# no\n", "cat <<E\nrm\nE\n", "echo `ls`;", "alias a='ls';", "set -- a b;"],
    Reading.SQL: ["SELECT 1;", "UPDATE t SET a = 1 WHERE b = 2;", "INSERT INTO t VALUES ('a');", "-- no\n", "/* no */",
                  "EXECUTE 'select 1';", "DELETE FROM t WHERE a = 1;", "CREATE TABLE a (b int);"],
    Reading.PLAIN: ["x = 1\n", "f('a', [1, 2])\n", "os.system('ls')\n", "# no\n", "for a in [1]:\n    f(a)\n",
                    "'''no'''\n",
                    "def g(a):\n    return a\n\n", "g(1)\n", "exec('1')\n", "with open('x') as h:\n    h.read()\n"],
}  # fmt: skip


@cases(
    "reading, piece",
    {
        "programs": (Reading.SHELL, "rm x;"),
        "substitutions": (Reading.SHELL, "$(rm x) "),
        "variables that grow": (Reading.SHELL, "a=$a$a;rm $a;"),
        "loops in loops": (Reading.SHELL, "for a in b c;do rm $a;"),
        "braces": (Reading.SHELL, "rm {a,b}{c,d} "),
        "programs in programs": (Reading.SHELL, "python -c 'import os;os.remove(1)';"),
        "renames": (Reading.SHELL, "mv a b;rm b/c;"),
        "backticks": (Reading.SHELL, "`rm` "),
        "statements in statements": (Reading.SQL, "exec 'exec ''drop table a''' "),
        "statements without an end": (Reading.SQL, "alter table a drop "),
        "brackets that stay open": (Reading.PLAIN, "os.remove("),
        "functions that call themselves": (Reading.PLAIN, "def f(a): f(a);os.remove(a)\nf(1)\n"),
        "lines of a notebook": (Reading.PLAIN, "!rm a\n"),
        "lines that go on": (Reading.PLAIN, "os.remove(a+\n"),
    },
)
def test_a_text_as_long_as_may_be_makes_a_bounded_number_of_calls_and_is_reported_to_be_unread(
    reading: Reading, piece: str
) -> None:
    text = piece * (MAX_COMMAND_CHARS // len(piece))
    assert calls_of(lambda: READERS[reading](text)) < CALLS_OF_A_STEP * MAX_STEPS
    assert not is_read_whole(text, reading, None)


@pytest.mark.parametrize("reading", list(READERS))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_what_stands_behind_any_padding_is_found_or_the_text_is_reported_to_be_unread(
    reading: Reading, data: st.DataObject
) -> None:
    pieces = data.draw(st.lists(st.tuples(st.sampled_from(PADDING[reading]), st.integers(1, 200)), max_size=5))
    text = "".join(piece * times for piece, times in pieces) + f"\n{LOSS[reading]}\n"
    found = READERS[reading](text)
    assert "fact_sales" in str(found) or not is_read_whole(text, reading, None)


@pytest.mark.parametrize("reading", list(READERS))
@settings(max_examples=25, deadline=None)
@given(text=st.text(alphabet=st.sampled_from("rm$({['\"`\\;|&<>\nE a/=!%:.,+@#*-)]}"), max_size=400))
def test_no_text_fails(reading: Reading, text: str) -> None:
    joined = text.join([LOSS[reading], "os", "drop table a", "rm x"])
    assert isinstance(READERS[reading](joined), tuple)


def test_steps_that_are_not_there_are_not_taken() -> None:
    work = StepBudget(2)
    assert work.take(2)
    assert not work.cut
    assert not work.take()
    assert work.cut


def calls_of(act: Callable[[], object]) -> int:
    """How many functions are called, Python's own among them."""
    count = 0

    def note(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count
