import pytest

from haltline.detectors.features.error_normalization import (
    MAX_KEY_CHARS,
    Normalization,
    error_key,
    failing,
    is_cancelled,
    is_timeout,
)

LOW, MEDIUM, HIGH = Normalization


@pytest.mark.parametrize(
    ("text", "low", "medium", "high"),
    [
        pytest.param(
            "rc=1: /testbed/a.py:12: NameError: name 'x' is not defined",
            "/testbed/a.py:#: nameerror: name 'x' is not defined",
            "<name>:#: nameerror: name 'x' is not defined",
            "nameerror",
            id="exit code, path and line",
        ),
        pytest.param(
            "FileNotFoundError: [Errno 2] No such file or directory: 'data/2024.csv'",
            "filenotfounderror: [errno 2] no such file or directory: 'data/2024.csv'",
            "filenotfounderror: [errno #] no such file or directory: <name>",
            "filenotfounderror",
            id="what was not there",
        ),
        pytest.param(
            "ls: cannot access 'matplotlib': No such file or directory",
            "ls: cannot access 'matplotlib': no such file or directory",
            "ls: cannot access <name>: no such file or directory",
            "not_found",
            id="a bare name that was not there",
        ),
        pytest.param(
            "connect to 10.0.0.7:5432 failed: Connection refused",
            "connect to 10.0.0.7:# failed: connection refused",
            "connect to #:# failed: connection refused",
            "connection",
            id="address and port",
        ),
        pytest.param(
            "2025-01-02T03:04:05.678Z request 0x7f81602e2ac3 failed with status 503",
            "<time> request <address> failed with status 503",
            "<time> request <address> failed with status #",
            "t z request x f e",
            id="time, hex address and status",
        ),
        pytest.param(
            "job 3f2504e0-4f89-11d3-9a0c-0305e82c3301 timed out",
            "job <id> timed out",
            "job <id> timed out",
            "timeout",
            id="an id",
        ),
        pytest.param(
            "\x1b[31mE   TypeError: bad operand\x1b[0m\n\x1b[31m1 failed\x1b[0m, 3 passed in 0.05s",
            "1 failed, 3 passed in 0.05s",
            "# failed, # passed in #s",
            "failed passed in s",
            id="colours, and the summary of a test run",
        ),
        pytest.param(
            'Traceback (most recent call last):\n  File "x.py", line 3, in f\nValueError: bad value 7\n\n',
            "valueerror: bad value 7",
            "valueerror: bad value #",
            "valueerror",
            id="the last line of a trace",
        ),
        pytest.param(
            "error: no\n" + "context\n" * 5,
            "error: no",
            "error: no",
            "error no",
            id="the line that tells a problem, not the last one",
        ),
        pytest.param(
            "GET https://api.example.org/v1/x?y=1 forbidden",
            "get https://api.example.org/v1/x?y=1 forbidden",
            "get <url> forbidden",
            "permission",
            id="a URL",
        ),
        pytest.param(
            "EACCES: permission denied, open '/etc/x'",
            "eacces: permission denied, open '/etc/x'",
            "eacces: permission denied, open <name>",
            "eacces",
            id="an error code",
        ),
    ],
)
def test_normal_forms(text: str, low: str, medium: str, high: str) -> None:
    assert [error_key(text, level) for level in (LOW, MEDIUM, HIGH)] == [low, medium, high]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("cat: /a/b.txt: No such file or directory", "cat: c.txt: No such file or directory", id="paths"),
        pytest.param(
            "flight HAT030 not available on date 2024-05-13",
            "flight HAT7 not available on date 2024-06-01",
            id="numbers in names",
        ),
        pytest.param(
            "module 'a_1' has no attribute 'b' (line 3)",
            "module 'a_2' has no attribute 'b' (line 77)",
            id="line numbers",
        ),
        pytest.param("worker 5f2b9c1d died: fatal signal 9", "worker 77aa01ee died: fatal signal 11", id="hex ids"),
        pytest.param("open C:\\data\\x.csv failed", "open D:\\tmp\\yy.csv failed", id="windows paths"),
        pytest.param("rated at 0.00/10, missing docstring", "rated at 6.67/10, missing docstring", id="scores"),
        pytest.param("Exit code 2 | fatal: bad revision", "Exit code 128 | fatal: bad revision", id="exit codes"),
    ],
)
def test_the_same_mistake(one: str, other: str) -> None:
    assert error_key(one) == error_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("NameError: name 'x' is not defined", "NameError: name 'y' is not defined", id="another name"),
        pytest.param("permission denied: /a", "no such file or directory: /a", id="another problem with the same path"),
    ],
)
def test_different_mistakes(one: str, other: str) -> None:
    assert error_key(one) != error_key(other)


@pytest.mark.parametrize(
    "text", ["", "  \n", "rc=1: ", "Exit code 1", "exitcode: 1 (execution failed)", "rc=1: </output_tail>", "42"]
)
def test_says_nothing(text: str) -> None:
    assert [error_key(text, level) for level in Normalization] == ["", "", ""]


@pytest.mark.parametrize("level", Normalization)
def test_keys_are_short_however_long_the_message(level: Normalization) -> None:
    text = "error " + "x" * 1_000_000 + " 'a/b' " * 1000
    assert 0 < len(error_key(text, level)) <= MAX_KEY_CHARS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("=== 2 failed, 185 passed, 1 error in 1.94s ===", 3, id="pytest"),
        pytest.param("FAILED (failures=4, errors=2, skipped=6)", 6, id="unittest"),
        pytest.param("58 tests, 1 failure", 1, id="another runner"),
        pytest.param("NameError: name 'x' is not defined", -1, id="no test run"),
        pytest.param("connect to 10.0.0.7:5432 failed", -1, id="a port that failed"),
        pytest.param("worker 17 failed", -1, id="a worker that failed"),
        pytest.param("", -1, id="nothing"),
    ],
)
def test_how_many_tests_failed(text: str, expected: int) -> None:
    assert failing(text) == expected


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("<tool_use_error>Sibling tool call errored</tool_use_error>", True, id="a sibling"),
        pytest.param("Cancelled because a parallel call failed", True, id="a parallel call"),
        pytest.param("Cancelled: parallel tool call Bash(npm test) errored", True, id="a parallel call that is named"),
        pytest.param("Tool not executed: another tool call in this turn was rejected", True, id="another call"),
        pytest.param("aborted since one of the concurrent commands failed", True, id="one of them"),
        pytest.param("order 7 was cancelled by the customer", False, id="something else was cancelled"),
        pytest.param("error: another process holds the lock, request aborted", False, id="another process"),
        pytest.param("parallel build failed: make: *** [all] Error 2", False, id="what failed is parallel itself"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_a_call_that_was_cancelled_with_another_one(text: str, found: bool) -> None:
    assert is_cancelled(text) is found


WARNED = "Warning: _curses.error: setupterm: could not find terminfo database\nTerminal features are not there."


@pytest.mark.parametrize(
    ("text", "key"),
    [
        pytest.param(f"{WARNED}\n", "", id="a warning alone says nothing"),
        pytest.param(
            f"{WARNED}\nNameError: name 'x' is not defined", "nameerror: name 'x' is not defined", id="an error"
        ),
        pytest.param(
            f"Segmentation fault (core dumped)\nno such key\n{WARNED}", "no such key", id="an error before it"
        ),
        pytest.param(f"{WARNED}\nthe answer is wrong", "the answer is wrong", id="another line behind it"),
        pytest.param(
            "/srv/a.py:3: DeprecationWarning: imp cannot be used any more\n  import imp\nAssertionError: 3 is not 4",
            "assertionerror: # is not #",
            id="a line of a program",
        ),
        pytest.param("WARNING: the cache was not found\nnpm WARN old lockfile: missing\n", "", id="several warnings"),
        pytest.param(
            "Traceback (most recent call last):\n  f()\nUserWarning: the index is not sorted",
            "userwarning: the index is not sorted",
            id="one that was raised is an error",
        ),
    ],
)
def test_a_warning_is_no_error(text: str, key: str) -> None:
    assert error_key(text, MEDIUM) == key


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("timed_out: command timed out", True, id="a harness that broke it off"),
        pytest.param("Execution of the cell timed out after 120 s", True, id="after some time"),
        pytest.param("curl: (28) Connection timed out after 5001 ms", False, id="a connection"),
        pytest.param("AssertionError: timeout is 3", False, id="only the word"),
    ],
)
def test_a_program_that_ran_for_too_long(text: str, found: bool) -> None:
    assert is_timeout(text) is found
