from hypothesis import given
from msgspec import msgpack

from haltline.detectors.features.novelty import VALUES, WINDOW, Novelty, _words, checksums
from haltline.detectors.session.stagnation import Stagnation
from haltline.schemas.events import ActionEvent, Outcome
from tests.builders import Watched, bash, call, event
from tests.cases import cases
from tests.detectors.strategies import long_session, sessions

MAX_BYTES = 8 * 1024


def measured(events: list[ActionEvent]) -> dict[str, float]:
    """By name: the values after the last of these events."""
    watched = Watched(Stagnation())
    for one in events:
        watched(one)
    return dict(zip((value.name for value in VALUES), watched.calls.novelty.values(), strict=True))


def steps(events: list[ActionEvent]) -> int:
    watched = Watched(Stagnation())
    for one in events:
        watched(one)
    return watched.calls.novelty.steps


def read(second: float, path: str, text: str) -> ActionEvent:
    return event(second, "read_file", f"path={path}", args={"path": path}, output_head=text, output_bytes=len(text))


NEW = ("alpha beacon", "cedar dolphin", "ember falcon", "garden harbour", "island jasmine", "kettle lantern")


def test_a_session_that_did_nothing_has_the_values_of_the_start() -> None:
    assert Novelty().values() == tuple(value.start for value in VALUES)


@cases(
    "events, expected",
    {
        "six files with new words are six fresh steps": (
            [read(s, f"/srv/{text[0]}", text) for s, text in enumerate(NEW)],
            {"fresh_20": 6, "stale_balance": 0, "repeats_12": 0, "since_edit": 6},
        ),
        "one file read six times is one fresh step and five that repeat it": (
            [read(s, "/srv/a", "alpha beacon") for s in range(6)],
            {"fresh_20": 1, "stale_balance": 5, "repeats_12": 5, "aligned_run": 5},
        ),
        "one command that fails alike four times fails in one new way": (
            [bash(s, "make test", "Error 2: no rule", output_head="", output_bytes=0) for s in range(4)],
            {"negative_20": 4, "new_failures_20": 1, "repeats_12": 3},
        ),
        "three hosts that do not resolve": (
            [
                bash(s, f"curl https://{host}.example", "Could not resolve host", output_head="", output_bytes=0)
                for s, host in enumerate(("one", "two", "three"))
            ],
            {"unreachable_20": 3},
        ),
        "one message to each of eight people is a series": (
            [event(s, "send_mail", args={"to": f"{s}@example.org"}, output_head="sent") for s in range(8)],
            {"stale_balance": 0, "results_seen_12": 0},
        ),
        "nine orders that have the same status are a series": (
            [event(s, "get_order", args={"order_id": f"{s}"}, output_head="status: shipped") for s in range(9)],
            {"stale_balance": 0, "results_seen_12": 0},
        ),
        "nine guesses that are refused are no series": (
            [
                event(s, "check_password", args={"password": f"{s}"}, output_head="Wrong password", output_bytes=14)
                for s in range(9)
            ],
            {"negative_20": 9, "stale_balance": 8},
        ),
        "six different edits": (
            [bash(s, f"sed -i s/{w}/x/ f.py", output_head="", output_bytes=0) for s, w in enumerate(NEW)],
            {"since_edit": 0, "stale_balance": 0},
        ),
        "one edit made six times is one": (
            [bash(s, "sed -i s/a/b/ f.py", output_head="", output_bytes=0) for s in range(6)],
            {"since_edit": 5, "repeats_12": 5},
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
        "a call is one step": (list(call(0, "read_file", args={"path": "a"}, output_head="x")), 1),
        "no result yet": (list(call(0, "read_file", args={"path": "a"}, output_head="x"))[:1], 0),
    },
)
def test_what_a_step_is(events: list[ActionEvent], expected: int) -> None:
    assert steps(events) == expected


def test_a_line_that_begins_every_result_says_nothing() -> None:
    banner = "Welcome to the sandbox, version five\n"
    events = [
        event(s, "run_it", args={"what": f"{NEW[s % 6]} {s}"}, output_head=f"{banner}{NEW[s % 6]}", output_bytes=50)
        for s in range(9)
    ]
    later = event(20, "run_it", args={"what": "more"}, output_head=banner, output_bytes=9_000, output_digest="d1")
    last = event(21, "run_it", args={"what": "most"}, output_head=banner, output_bytes=9_000, output_digest="d2")
    # Nothing but the banner is known of both: they are told apart by their digests.
    watched = Watched(Stagnation())
    for one in (*events, later, last):
        watched(one)
    assert len(set(checksums(watched.calls.novelty.results)[-2:])) == 2


def test_numbers_and_ids_are_masked() -> None:
    events = [
        event(s, "fetch_row", args={"row": f"{s}"}, output_head=f"row 0x{s}f at 10:0{s}", output_bytes=19)
        for s in range(2)
    ]
    watched = Watched(Stagnation())
    for one in events:
        watched(one)
    assert len(set(checksums(watched.calls.novelty.results))) == 1
    assert len(set(checksums(watched.calls.novelty.calls))) == 1
    assert len(set(checksums(watched.calls.novelty.exact_calls))) == 2


@given(events=sessions())
def test_values_stay_within_their_bounds(events: list[ActionEvent]) -> None:
    values = measured(events)
    for name, most in (("repeats_12", 12), ("results_seen_12", 12), ("negative_20", 20), ("fresh_20", 20)):
        assert 0 <= values[name] <= most
    assert 0 <= values["distinct_sizes_30"] <= 1
    assert 0 <= values["new_call_words_20"] <= 1
    assert values["new_failures_20"] <= values["negative_20"]
    assert values["unreachable_20"] <= values["negative_20"]
    assert values["since_edit"] <= WINDOW


def test_the_state_stays_small() -> None:
    watched = Watched(Stagnation())
    for one in long_session(2_000):
        watched(one)
    assert len(msgpack.encode(watched.calls.novelty)) <= MAX_BYTES


def test_words_that_are_long_ago_are_forgotten() -> None:
    novelty = Novelty()
    first = {"lighthouse", "harbour"}
    assert novelty._new_words(first) == 100
    assert novelty._new_words(first) == 0
    for number in range(4_000):
        novelty._new_words({f"word{number}", f"filler{number}"})
    assert novelty._new_words(first) == 100
    assert len(novelty.words.split(" ")) <= 400


@cases(
    "text, expected",
    {
        "nothing": ("", set()),
        "marks stand between words": ("GET /srv/App.py: 404", {"get", "srv", "app", "py", "404"}),
        "letters of other languages": ("Straße über dem Fluß", {"straße", "über", "dem", "fluß"}),
        "no spaces: pieces": ("漢字かなまじり文の長い", {"漢字かなまじり文", "の長い"}),
        "half a character": ("half \ud83d a pair", {"half", "pair"}),
    },
)
def test_the_words_of_a_text(text: str, expected: set[str]) -> None:
    assert _words(text) == expected


def test_a_word_that_is_too_long_is_never_known() -> None:
    novelty = Novelty()
    assert [novelty._new_words({"x" * 64}) for _ in range(2)] == [100, 100]
    assert novelty.words == ""


@cases(
    "text, expected",
    {
        "an error in a word": ("ValueError: 3", True),
        "one word": ("Permission denied", True),
        "a guess that is refused": ("Wrong flag!", True),
        "two words": ("it's not correct", True),
        "with an apostrophe": ("I can't do that", True),
        "beside letters of other languages": ("étape: incorrect", True),
        "words that only begin such": ("no changes, not now, time to try", False),
        "none": ("status: shipped", False),
    },
)
def test_what_is_read_as_a_refusal(text: str, expected: bool) -> None:
    values = measured([event(0, "ask", args={"q": "x"}, output_head=text, output_bytes=len(text))])
    assert values["negative_20"] == expected


def test_of_a_call_only_its_beginning_is_read() -> None:
    watched = Watched(Stagnation())
    for s in range(2):
        watched(event(s, "put", args={"b": "y" * 5_000 + f"{s}", "a": s}, output_head="ok"))
    assert len(set(checksums(watched.calls.novelty.calls))) == 1


def test_the_order_of_arguments_says_nothing() -> None:
    watched = Watched(Stagnation())
    for s, args in enumerate(({"a": "one", "b": {"x": 1, "y": 2}}, {"b": {"y": 2, "x": 1}, "a": "one"})):
        watched(event(s, "put", args=args, output_head="ok"))
    assert len(set(checksums(watched.calls.novelty.calls))) == 1
