"""New words of a result: the words, the Bloom filter compared with a set, and the calls that the guard counts."""

import re
import sys
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from haltline.interventions.agent.novelty import CAPACITY, SeenBySession, SeenWords, words_of
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.testing import ScriptedGuard
from haltline.schemas.events import Kind, Novelty, Task
from tests.builders import cases, some

# No two of one block, so that none of them is ever taken for another one.
POOL = list({crc32(b"w%d" % n) % 1000: f"w{'x' * (2 + n % 7)}{n}" for n in range(1, 40)}.values())
WORDS = sorted({word for text in POOL for word in re.findall(r"[A-Za-z_]{3,}|[0-9]+", text)})
APART = list({crc32(word.encode()) % 1000: word for word in WORDS}.values())


@given(st.text() | st.text("aZ_09 é\n", max_size=60))
def test_the_words_of_a_text_are_those_of_the_expression(text: str) -> None:
    found = words_of(text)
    assert len(found) == len(set(found))
    assert {word.decode() for word in found} == set(re.findall(r"[A-Za-z_]{3,}|[0-9]+", text))


results = st.lists(st.tuples(st.sets(st.sampled_from(APART)), st.sets(st.sampled_from(APART))), max_size=20)


@given(results)
def test_below_its_capacity_the_sketch_counts_as_a_set_does(calls: list[tuple[set[str], set[str]]]) -> None:
    seen, known = SeenWords(), set[str]()
    for number, (args, result) in enumerate(calls):
        known |= {"argument"} | args if args else set()
        expected = Novelty(new_words=len(result - known), words=len(result), results=number)
        counted = seen.take(" ".join(sorted(result)), args={"argument": [*args]} if args else None)
        assert counted.model_copy(update=dict.fromkeys(("operands", "given", "counted"))) == expected
        known |= result


@cases(
    "calls, expected",
    {
        "a list that a result showed is given, each of its objects once": (
            [("ls src", "alpha.py beta.py"), ("ruff check src/alpha.py", "ok"), ("ruff check src/alpha.py", "ok")],
            [(1, 0, 0), (3, 1, 0), (0, 0, 0)],
        ),
        "what the agent counts up was given by nothing": (
            [("python run1.py", "err"), ("python run2.py", "err")],
            [(2, 0, 1), (1, 0, 1)],
        ),
        "the number that the last result named is given": (
            [("get page=1000", "next: 2000"), ("get page=2000", "next: 3000")],
            [(3, 0, 1), (1, 1, 0)],
        ),
        "short numbers and words of one or two letters name nothing": ([("sed -n 1,9p ab", "x")], [(1, 0, 0)]),
    },
)
def test_operands(calls: list[tuple[str, str]], expected: list[tuple[int, int, int]]) -> None:
    seen = SeenWords()
    counted = [seen.take(result, args={"c": command}) for command, result in calls]
    assert [(one.operands, one.given, one.counted) for one in counted] == expected


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
    assert (
        sum(sys.getsizeof(f) for part in (seen._words, seen._given, seen._used) for f in vars(part).values())
        < 48 * 1024
    )


def test_of_more_sessions_than_are_kept_the_one_used_longest_ago_begins_anew() -> None:
    seen = SeenBySession(max_sessions=2)
    for session in ("a", "b", "a", "c"):
        seen.of(session).take("word")
    assert [seen.of(session).take("word").results for session in ("a", "c", "b")] == [2, 1, 0]


def test_what_a_prompt_or_the_task_names_is_given() -> None:
    with ScriptedGuard(settings=GuardSettings(bootstrap="kafka:9092", task=Task(goal="repair ORD-0001"))) as guard:
        guard.prompt("and then ORD-0002 as well")
        for order in ("ORD-0001", "ORD-0002", "ORD-0003"):
            with guard.action("repair", args={"order": order}) as call:
                call.result("done")
    counted = [some(e.output_novelty) for e in guard.events if e.kind is Kind.COMPLETED]
    assert [(one.operands, one.given) for one in counted] == [(2, 1), (1, 1), (1, 0)], (
        "the argument's own name is an operand, too"
    )
