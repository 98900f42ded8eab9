from collections.abc import Iterable
from typing import Any

from hypothesis import given, settings
from msgspec import msgpack

from haltline.detectors.features.novelty import VALUES, Novelty, checksums
from haltline.detectors.session.stagnation import Stagnation
from haltline.schemas.events import ActionEvent, Outcome
from haltline.schemas.events import Novelty as Novel
from tests.builders import Watched, bash, cases, each, event
from tests.detectors.strategies import long_session, sessions

MAX_BYTES = 8 * 1024


def watched(events: Iterable[ActionEvent]) -> Novelty:
    """The measure after these events."""
    session = Watched(Stagnation())
    for one in events:
        session(one)
    return session.calls.novelty


def measured(events: Iterable[ActionEvent]) -> dict[str, float]:
    """By name: the values after the last of these events."""
    return dict(zip((value.name for value in VALUES), watched(events).values(), strict=True))


def read(second: float, path: str, text: str) -> ActionEvent:
    return event(second, "read_file", f"path={path}", args={"path": path}, output_head=text, output_bytes=len(text))


def ran(second: float, command: str, *, words: int, operands: int, **fields: Any) -> ActionEvent:
    """A command as the agent's side counts it."""
    counts = {name: fields.pop(name, 0) for name in ("given", "counted")}
    novelty = Novel(new_words=words, words=50, results=int(second), operands=operands, **counts)
    error = fields.pop("error", None)
    return bash(
        second, command, error, **({"output_head": "ok", "output_bytes": 2, "output_novelty": novelty} | fields)
    )


NO_OUTPUT: dict[str, Any] = {"output_head": "", "output_bytes": 0}
NEW = ("alpha beacon", "cedar dolphin", "ember falcon", "garden harbour", "island jasmine", "kettle lantern")


@cases(
    "events, expected",
    {
        "six files with new words are six fresh steps": (
            [read(s, f"/srv/{text[0]}", text) for s, text in enumerate(NEW)],
            {"fresh_20": 6, "stale_balance": 0, "results_seen_12": 0},
        ),
        "one file read six times is one fresh step and five that repeat it": (
            each(6, read, "/srv/a", "alpha beacon"),
            {"fresh_20": 1, "stale_balance": 5, "results_seen_12": 5, "aligned_run": 5},
        ),
        "one command that fails alike four times fails in one new way": (
            each(4, bash, "make test", "Error 2: no rule", **NO_OUTPUT),
            {"negative_20": 4, "negative_5": 4, "new_failures_20": 1},
        ),
        "new words are averaged over the last results, and what no call has named is counted": (
            [ran(s, f"ls /{w}", words=12 * s, operands=1, given=0) for s, w in enumerate(NEW)],
            {"new_words_4": 35.0, "unused_20": 20, "unused_5": 5, "given_20": 14},
        ),
        "each object of a list that was shown": (
            [ran(s, f"ruff check {w}", words=0, operands=1, given=1) for s, w in enumerate(NEW)],
            {"results_seen_12": 0, "stale_balance": 0, "given_20": 20, "new_words_12": 40.0},
        ),
    },
)
def test_what_is_measured(events: list[ActionEvent], expected: dict[str, float]) -> None:
    values = measured(events)
    assert {name: values[name] for name in expected} == expected


@cases(
    "events, expected",
    {
        "a refused call is no step": ([event(0, outcome=Outcome.REFUSED)], 0),
        "waiting is no step": ([bash(0, "sleep 30; curl x", output_head="")], 0),
        "thinking is no step": ([event(0, "think", args={"thought": "on"}, output_head="")], 0),
    },
)
def test_what_a_step_is(events: list[ActionEvent], expected: int) -> None:
    assert watched(events).steps == expected


def test_a_line_that_begins_every_result_says_nothing() -> None:
    banner = "Welcome to the sandbox, version five\n"

    def ran(second: float, what: str, result: str, **fields: Any) -> ActionEvent:
        return event(second, "run_it", args={"what": what}, output_head=banner + result, **fields)

    events = [ran(s, f"{NEW[s % 6]} {s}", NEW[s % 6], output_bytes=50) for s in range(9)]
    events += [ran(20 + s, f"{s}", "", output_bytes=9_000, output_digest=f"d{s}") for s in range(2)]
    # Nothing but the banner is known of the last two: they are told apart by their digests.
    assert len(set(checksums(watched(events).results)[-2:])) == 2


@cases(
    "args, results",
    {
        "numbers and ids are masked": ([{"row": "0"}, {"row": "1"}], ["row 0x0f at 10:00", "row 0x1f at 10:01"]),
        "only its beginning is read": ([{"b": "y" * 5_000 + f"{s}", "a": s} for s in range(2)], ["ok", "ok"]),
    },
)
def test_two_calls_that_are_one(args: list[dict[str, object]], results: list[str]) -> None:
    calls = zip(range(2), args, results, strict=True)
    novelty = watched([event(s, "put", args=a, output_head=r, output_bytes=19) for s, a, r in calls])
    assert len(set(checksums(novelty.calls))) == 1
    assert len(set(checksums(novelty.results))) == 1


@given(events=sessions())
@settings(max_examples=20)
def test_values_stay_within_their_bounds(events: list[ActionEvent]) -> None:
    values = measured(events)
    for name, most in (
        ("results_seen_12", 12),
        ("negative_20", 20),
        ("negative_5", 5),
        ("fresh_20", 20),
        ("unused_20", 20),
        ("unused_5", 5),
        ("given_20", 20),
        ("new_words_12", 40),
        ("new_words_4", 40),
    ):
        assert 0 <= values[name] <= most
    assert 0 <= values["new_call_words_20"] <= 1
    assert values["new_failures_20"] <= values["negative_20"]
    assert values["unreachable_20"] <= values["negative_20"]


def test_values_begin_at_their_start_and_the_state_stays_small() -> None:
    assert Novelty().values() == tuple(value.start for value in VALUES)
    assert len(msgpack.encode(watched(long_session(1_000)))) <= MAX_BYTES


def test_words_that_are_long_ago_are_forgotten_and_one_that_is_too_long_is_never_known() -> None:
    novelty = Novelty()
    first = {"lighthouse", "harbour"}
    assert novelty._new_words(first) == 100
    assert novelty._new_words(first) == 0
    for number in range(4_000):
        novelty._new_words({f"word{number}", f"filler{number}"})
    assert novelty._new_words(first) == 100
    assert len(novelty.words.split(" ")) <= 400
    fresh = Novelty()
    assert [fresh._new_words({"x" * 64}) for _ in range(2)] == [100, 100]
    assert fresh.words == ""


@cases(
    "text, expected",
    {
        "an error in a word": ("ValueError: 3", True),
        "a guess that is refused": ("Wrong flag!", True),
        "beside letters of other languages": ("étape: incorrect", True),
        "words that only begin such": ("no changes, not now, time to try", False),
    },
)
def test_what_is_read_as_a_refusal(text: str, expected: bool) -> None:
    values = measured([event(0, "ask", args={"q": "x"}, output_head=text, output_bytes=len(text))])
    assert values["negative_20"] == expected
