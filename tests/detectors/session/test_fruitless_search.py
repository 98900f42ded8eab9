from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from haltline.detectors.features.error_normalization import ANSI
from haltline.detectors.session import fruitless_search
from haltline.detectors.session.fruitless_search import FruitlessSearch
from haltline.schemas.events import ActionEvent, Novelty
from tests.builders import Events, bash, call, cases, each, event, fires_at, in_turn, severities

DETECTOR = FruitlessSearch()


def search(second: float, result: str | None = "No matches found", **fields: Any) -> ActionEvent:
    return event(second, "search_code", args={"query": f"q{second:g}"}, output_head=result, **fields)


def grep(second: float, output: str = "") -> ActionEvent:
    return bash(second, f"grep -rn 'name_{second:g}' src", "rc=1: " if not output else None, output_head=output)


@cases(
    "events, found",
    {
        "ten are medium": (each(10, search), "m"),
        "sixteen are high, thirty critical": (each(30, search), "m" * 6 + "h" * 14 + "c"),
        "by a program that ends without a word": (each(10, grep), "m"),
        "an empty result by its size": (each(10, search, None, output_bytes=0), "m"),
        "results that nobody tells": (each(20, search, None), ""),
        "thoughts in between": (
            [search(s) if s % 2 else event(s, "think", args={"thought": f"{s}"}, output_head="") for s in range(20)],
            "m",
        ),
    },
)
def test_fires(events: Events, found: str) -> None:
    assert severities(DETECTOR, events) == found


def words(new: int, of: int = 40) -> dict[str, Any]:
    return {"output_head": "some of the words", "output_novelty": Novelty(new_words=new, words=of, results=9)}


def reworded(second: float, new: int = 0, **fields: Any) -> ActionEvent:
    """A search of the web, worded differently each time."""
    return event(second, "web_search", args={"query": f"format {second:g}"}, **words(new), **fields)


def part(second: float, new: int = 0, path: str = "a.py") -> ActionEvent:
    """Lines of a file, other ones each time."""
    return event(second, "read_file", args={"path": path, "offset": int(second) * 7 % 50, "limit": 40}, **words(new))


def lines(second: float, new: int = 0) -> ActionEvent:
    return bash(second, f"sed -n '{int(second) * 7 % 50},90p' src/a.py", **words(new))


@cases(
    "events, found",
    {
        "searches without a new word": (each(12, reworded), "mmmhhhc"),
        "less than a tenth of the words is new": (each(6, reworded, new=3), "m"),
        "a page was opened": ([reworded(s) if s != 5 else event(s, "open", **words(20)) for s in range(11)], ""),
        "parts of one file": (each(9, part), "mmmh"),
        "parts of one file, printed by a program": (each(9, lines), "mmmh"),
        "the same part": (each(12, event, "read_file", args={"path": "a.py", "offset": 1}, **words(0)), ""),
        "parts with an edit in between": (
            [part(s) if s != 5 else event(s, "edit_file", args={"path": "a.py"}, **words(0)) for s in range(11)],
            "",
        ),
        "failed searches": (each(12, reworded, error="503"), ""),
    },
)
def test_lookups_that_bring_nothing_new(events: Events, found: str) -> None:
    assert severities(DETECTOR, events) == found


def answered(second: float, action: str = "search", size: int = 400, digest: str = "d", **fields: Any) -> ActionEvent:
    """A call with other arguments each time, and one answer."""
    answer: dict[str, Any] = {"output_head": "asyncio: event loop", "output_bytes": size, "output_digest": digest}
    return event(second, action, args={"query": f"loop is closed, {WORDS[int(second) % 8]}"}, **answer, **fields)


def asked_at_once(second: float) -> list[ActionEvent]:
    """Three searches of one model turn: all are proposed before the first result."""
    answer: dict[str, Any] = {"output_head": "a", "output_bytes": 400, "output_digest": "d"}
    calls = [call(second + n / 99, "search", args={"query": f"{second} {n}"}, **answer) for n in range(3)]
    return [e for phase in zip(*calls, strict=True) for e in phase]


WORDS = ("how", "why", "fix", "solve", "what", "when", "error", "help")


@cases(
    "events, found",
    {
        "searches in other words": (each(6, answered), "mhcc"),
        "a tool of which nothing is known: no stop": (each(6, answered, "lookup"), "mhhh"),
        "short answers, which may be receipts": (each(8, answered, size=40), ""),
        "something was done in between": (
            [answered(s) if s != 2 else event(s, "edit_file", args={"path": "a.py"}) for s in range(5)],
            "",
        ),
        "the same call is left to another rule": ([answered(0, action="search")] * 6, ""),
        "files that are equal": (each(8, answered, "read_file"), ""),
        "searches of one turn are asked at once": ([c for n in range(3) for c in asked_at_once(n * 9)], "m"),
        "programs, whose output may be a progress bar": (
            [bash(s, f"./run {s}", output_bytes=400, output_digest="d", output_head="ok") for s in range(8)],
            "",
        ),
        "answers whose digest is not known": (each(8, answered, digest=None), ""),
    },
)
def test_different_calls_with_the_same_long_answer(events: Events, found: str) -> None:
    assert severities(DETECTOR, events) == found


def grep_anew(second: float) -> ActionEvent:
    """A search that finds something new."""
    return grep(second, f"src/{second:g}.py: {second:g}")


def guess(second: float, answer: str | None = "Wrong flag!", action: str = "probe", **fields: Any) -> ActionEvent:
    return event(second, action, args={"flag": f"flag{{{second:g}}}"}, output_head=answer, **fields)


def guessing(events: Events) -> str:
    """The severities of what is said of guesses, by their first letters."""
    return "".join(severity[0] for _, code, severity in fires_at(DETECTOR, events) if code == "blind_guessing")


@cases(
    "events, found",
    {
        "four are medium, six high, eight critical": (each(9, guess), "mmhhcc"),
        "the answer quotes the guess": ([guess(s, f"'{'abcd'[s]}' is incorrect") for s in range(4)], "m"),
        "one name after another at a login": (
            [bash(s, f"curl -s h/login -d user=u{s}", output_head='{"error": "Access denied"}') for s in range(8)],
            "mmhhc",
        ),
        "between them the same as ever": (
            in_turn(range(0, 16, 2), lambda s: event(s, "connect", output_head="Hi"), lambda s: guess(s, "Try again")),
            "mmhh",
        ),
        "answers that lead somewhere": ([guess(s, "Too low" if s % 2 else "Too high") for s in range(12)], ""),
        "errors, which are counted as such": (each(9, guess, None, error="Wrong flag!"), ""),
        "waiting": (each(9, guess, "Busy, try again later"), ""),
        "reading of such words": (
            [bash(s, f"grep -n wrong {s}.py", output_head=f"{s}: the {'abcdefghi'[s]} way is wrong") for s in range(9)],
            "",
        ),
    },
)
def test_guesses(events: Events, found: str) -> None:
    assert guessing(events) == found


def submit(second: float, flag: str, answer: str = "Wrong flag!", **fields: Any) -> ActionEvent:
    return event(second, "submit_flag", args={"flag": flag}, output_head=answer, **fields)


def attempt(second: float, answer: str, command: str = "curl -s h/login -d user=u{}") -> ActionEvent:
    return bash(second, command.format(f"{second:g}"), output_head=answer, output_bytes=len(answer))


def kinds(events: Events) -> str:
    """The severities of what is said of submissions and of uniform answers, by their first letters."""
    codes = {"refused_submissions", "uniform_answers"}
    return "".join(severity[0] for _, code, severity in fires_at(DETECTOR, events) if code in codes)


METER = "  % Total    % Received  Current\n        Dload  Upload\n\r  0  0 "
BAR = "\n100  61 --:--:-- --:--:-- 20333"
PAGE = "<html><body>Please sign in to see what is here</body></html>"


@cases(
    "events, found",
    {
        "the same one is refused again": ([submit(0, "a"), submit(1, "a")], "m"),
        "three are refused": ([submit(0, "a"), submit(1, "b"), submit(2, "c")], "c"),
        "refused by an error": ([submit(s, f"{s}", "", error="incorrect flag") for s in range(3)], "c"),
        "work in between, which did not help": (
            in_turn(range(0, 27, 9), lambda s: submit(s, f"{s}"), *[grep_anew] * 7),
            "c",
        ),
        "far apart": (in_turn(range(0, 60, 20), lambda s: submit(s, f"{s}"), *[grep_anew] * 14), ""),
        "they are taken": ([submit(s, f"{s}", "Correct!") for s in range(4)], ""),
        "answers of a quiz": ([event(s, "submit_answer", f"a={s}", output_head="Wrong!") for s in range(3)], ""),
        # one answer to different calls
        "seven are medium, ten high, twelve critical": (each(12, attempt, PAGE), "mmmhhc"),
        "the answers differ in numbers": ([attempt(s, PAGE + f" id={s:02d}") for s in range(7)], "m"),
        "the same call, which is a repetition": ([attempt(0, PAGE) for _ in range(7)], ""),
        "all is well": (each(12, attempt, '{"status": "UP"}', "curl -s h{}/health"), ""),
        "receipts": (each(12, attempt, "created item", "aws x create --id {}"), ""),
        "one answer to calls that are far apart": (
            in_turn(range(0, 108, 9), lambda s: attempt(s, PAGE), *[grep_anew] * 7),
            "",
        ),
    },
)
def test_refused_submissions_and_uniform_answers(events: Events, found: str) -> None:
    assert kinds(events) == found


_PIECES = (
    *("Wrong", "incorrect", "Nope", "not right", "not", " ", "access denied", "try again", "try again later", "no"),
    *("unauthorised", "invalid flag", "bad pin", "unknown user", "login failed", "unlocking unsuccessful", "fail"),
    *("now", "No", "!", ".", "\n", "_", "1", "\x1b[31m", "\u017f", "wr", "ong", "piano", "ok"),
)


@given(st.lists(st.sampled_from(_PIECES), max_size=6).map("".join))
def test_the_first_look_for_a_no_passes_every_text_that_says_it(text: str) -> None:
    says = fruitless_search._NO.search(ANSI.sub("", text).strip()) is not None
    assert fruitless_search._says_no(text) is says
