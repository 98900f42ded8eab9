import pytest

from haltline.detectors.features.error_normalization import (
    MAX_KEY_CHARS,
    Normalization,
    error_key,
    failing,
    is_cancelled,
    is_timeout,
)
from tests.builders import cases

LOW, MEDIUM, HIGH = Normalization
UUID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"


@cases(
    "text, low, medium, high",
    {
        "exit code, path and line": (
            "rc=1: /testbed/a.py:12: NameError: name 'x' is not defined",
            "/testbed/a.py:#: nameerror: name 'x' is not defined",
            "<name>:#: nameerror: name 'x' is not defined",
            "nameerror",
        ),
        "time, hex address and status": (
            "2025-01-02T03:04:05.678Z request 0x7f81602e2ac3 failed with status 503",
            "<time> request <address> failed with status 503",
            "<time> request <address> failed with status #",
            "t z request x f e",
        ),
        "an id": (f"job {UUID} timed out", "job <id> timed out", "job <id> timed out", "timeout"),
        "colours, and the summary of a test run": (
            "\x1b[31mE   TypeError: bad operand\x1b[0m\n\x1b[31m1 failed\x1b[0m, 3 passed in 0.05s",
            "1 failed, 3 passed in 0.05s",
            "# failed, # passed in #s",
            "failed passed in s",
        ),
        "the line that tells a problem": ("error: no\n" + "context\n" * 5, "error: no", "error: no", "error no"),
        "a URL": (
            "GET https://a.io/x?y=1 forbidden",
            "get https://a.io/x?y=1 forbidden",
            "get <url> forbidden",
            "permission",
        ),
    },
)
def test_normal_forms(text: str, low: str, medium: str, high: str) -> None:
    assert [error_key(text, level) for level in (LOW, MEDIUM, HIGH)] == [low, medium, high]


SAY_NOTHING = ("", "  \n", "rc=1: ", "Exit code 1", "exitcode: 1 (execution failed)", "rc=1: </output_tail>", "42")


@pytest.mark.parametrize("level", Normalization)
def test_what_says_nothing_has_no_key_and_keys_are_short_however_long_the_message(level: Normalization) -> None:
    assert {error_key(text, level) for text in SAY_NOTHING} == {""}
    text = "error " + "x" * 1_000_000 + " 'a/b' " * 1000
    assert 0 < len(error_key(text, level)) <= MAX_KEY_CHARS


@cases(
    "text, expected",
    {
        "pytest": ("=== 2 failed, 185 passed, 1 error in 1.94s ===", 3),
        "unittest": ("FAILED (failures=4, errors=2, skipped=6)", 6),
        "no test run": ("NameError: name 'x' is not defined", -1),
        "a port that failed": ("connect to 10.0.0.7:5432 failed", -1),
    },
)
def test_how_many_tests_failed(text: str, expected: int) -> None:
    assert failing(text) == expected


@cases(
    "text, found",
    {
        "a parallel call": ("Cancelled because a parallel call failed", True),
        "another call": ("Tool not executed: another tool call in this turn was rejected", True),
        "something else was cancelled": ("order 7 was cancelled by the customer", False),
        "what failed is parallel itself": ("parallel build failed: make: *** [all] Error 2", False),
    },
)
def test_a_call_that_was_cancelled_with_another_one(text: str, found: bool) -> None:
    assert is_cancelled(text) is found


WARNED = "Warning: _curses.error: setupterm: could not find terminfo database\nTerminal features are not there."


@cases(
    "text, key",
    {
        "a warning alone says nothing": (f"{WARNED}\n", ""),
        "an error": (f"{WARNED}\nNameError: name 'x' is not defined", "nameerror: name 'x' is not defined"),
        "an error before it": (f"Segmentation fault (core dumped)\nno such key\n{WARNED}", "no such key"),
        "one that was raised is an error": (
            "Traceback (most recent call last):\n  f()\nUserWarning: the index is not sorted",
            "userwarning: the index is not sorted",
        ),
    },
)
def test_a_warning_is_no_error(text: str, key: str) -> None:
    assert error_key(text, MEDIUM) == key


def test_a_program_that_ran_for_too_long() -> None:
    assert is_timeout("timed_out: command timed out") is True, "a harness that broke it off"
    assert is_timeout("Execution of the cell timed out after 120 s") is True, "after some time"
    assert is_timeout("curl: (28) Connection timed out after 5001 ms") is False, "a connection"
    assert is_timeout("AssertionError: timeout is 3") is False, "only the word"
