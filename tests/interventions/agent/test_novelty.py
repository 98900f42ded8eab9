"""What is new in a result: the words, the sketch against a plain set, and which calls the guard counts."""

import asyncio
import re
import sys
import threading
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.interventions.agent.novelty import CAPACITY, MAX_BYTES, SeenBySession, SeenWords, words_of
from haltline.interventions.agent.testing import ScriptedGuard
from haltline.schemas.decisions import Level
from haltline.schemas.events import Kind, Novelty

# No two of one block, so that none of them is ever taken for another one.
POOL = list({crc32(b"w%d" % n) % 1000: f"w{'x' * (2 + n % 7)}{n}" for n in range(1, 40)}.values())
WORDS = sorted({word for text in POOL for word in re.findall(r"[A-Za-z_]{3,}|[0-9]+", text)})
APART = list({crc32(word.encode()) % 1000: word for word in WORDS}.values())


@given(st.text() | st.text("aZ_09 é\n", max_size=60))
def test_the_words_of_a_text_are_those_of_the_expression(text: str) -> None:
    found = words_of(text)
    assert len(found) == len(set(found))
    assert {word.decode() for word in found} == set(re.findall(r"[A-Za-z_]{3,}|[0-9]+", text))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([None], set(), id="nothing"),
        pytest.param(["ab abc a_1"], {"abc", "1"}, id="a text"),
        pytest.param([{"text": "one\ntwo \\name \x01three", "n": 12}], {"text", "one", "two", "name", "three", "12"},
                     id="JSON, whose escape sequences separate words"),
        pytest.param(["first", None, ValueError], {"first", "builtins", "type"}, id="several values, one no JSON"),
        pytest.param(["x" * (MAX_BYTES - 4) + " abcdef"], {"x" * (MAX_BYTES - 4), "abc"}, id="no more than 64 KiB"),
    ],
)  # fmt: skip
def test_of_any_value_the_words_are_counted(values: list[Any], expected: set[str]) -> None:
    assert {word.decode() for word in words_of(*values)} == expected


results = st.lists(st.tuples(st.sets(st.sampled_from(APART)), st.sets(st.sampled_from(APART))), max_size=20)


@given(results)
def test_below_its_capacity_the_sketch_counts_as_a_set_does(calls: list[tuple[set[str], set[str]]]) -> None:
    seen, known = SeenWords(), set[str]()
    for number, (args, result) in enumerate(calls):
        known |= {"argument"} | args if args else set()
        expected = Novelty(new_words=len(result - known), words=len(result), results=number)
        assert seen.take(" ".join(sorted(result)), args={"argument": [*args]} if args else None) == expected
        known |= result


def numbered(begin: int, count: int = 100) -> str:
    return " ".join(map(str, range(begin, begin + count)))


def test_a_long_session_forgets_its_oldest_words_and_hardly_ever_takes_a_new_one_for_known() -> None:
    seen, again = SeenWords(), SeenWords()
    counted = [seen.take(numbered(begin)).new_words for begin in range(0, 30_000, 100)]
    assert counted == [again.take(numbered(begin)).new_words for begin in range(0, 30_000, 100)]
    assert max(counted) <= 100
    assert 0.995 * 30_000 < sum(counted) < 30_000
    assert seen.take(numbered(30_000 - CAPACITY, CAPACITY)).new_words == 0
    assert seen.take(numbered(0, 1000)).new_words > 950
    assert sum(map(sys.getsizeof, vars(seen).values())) < 16 * 1024


def test_results_of_many_threads_are_each_counted_once() -> None:
    seen, numbers = SeenWords(), list[int]()

    def take() -> None:
        for _ in range(50):
            numbers.append(seen.take("the same words").results)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(200))


def test_of_more_sessions_than_are_kept_the_one_used_longest_ago_begins_anew() -> None:
    seen = SeenBySession(max_sessions=2)
    for session in ("a", "b", "a", "c"):
        seen.of(session).take("word")
    assert [seen.of(session).take("word").results for session in ("a", "c", "b")] == [2, 1, 0]


def counted(guard: ScriptedGuard) -> list[tuple[int, int, int] | None]:
    ends = [event.output_novelty for event in guard.events if event.kind is Kind.COMPLETED]
    return [None if end is None else (end.new_words, end.words, end.results) for end in ends]


def test_a_guard_counts_results_and_errors_and_nothing_of_calls_without_one() -> None:
    guard = ScriptedGuard(Level.ALLOW, Level.ALLOW, Level.BLOCK, session_id="s1")

    @guard.tool
    def read(path: str) -> dict[str, str]:
        if path == "missing":
            raise FileNotFoundError("no such path")
        return {"content": f"found {path}"}

    read("notes")
    with pytest.raises(FileNotFoundError):
        read("missing")
    with pytest.raises(Exception, match="not"), guard.action("delete_asset"):
        pass
    with pytest.raises(asyncio.CancelledError), guard.action("read"):
        raise asyncio.CancelledError
    with guard.action("read"):
        pass
    with guard.action("read") as action:
        action.result("found such notes")
    # "path" and its value are arguments.
    assert counted(guard) == [(2, 3, 0), (2, 3, 1), None, None, None, (0, 3, 2)]


def test_a_guard_that_was_restarted_says_so() -> None:
    for _ in range(2):
        guard = ScriptedGuard(session_id="s1")
        with guard.action("read") as action:
            action.result("found")
        assert counted(guard) == [(1, 1, 0)]
