from collections.abc import Sequence
from random import Random

import pytest

from haltline.detectors.session.cycle import Cycle
from haltline.schemas.events import ActionEvent, Kind
from tests.builders import Events, bash, call, cases, event, fires_at, in_turn

DETECTOR = Cycle()


def look(second: float, what: str = "a", result: str | None = None) -> ActionEvent:
    """A read whose result is the same each time, unless another is given."""
    return event(second, "read_file", f"path=/srv/{what}", output_head=result or f"text of {what}")


def looks(order: str) -> list[ActionEvent]:
    """One read for each letter."""
    return [look(second, what) for second, what in enumerate(order)]


def edit(second: float) -> ActionEvent:
    return bash(second, f"sed -i s/{second:g}/b/ x", output_head="")


def pressed(order: str) -> list[ActionEvent]:
    """A tool of which nothing is known, once for each letter."""
    return [event(second, "press", f"key={what}", output_head="ok") for second, what in enumerate(order)]


def found(events: Events, detector: Cycle = DETECTOR) -> dict[str, str]:
    """By code: the severities of the findings, by their first letters."""
    result: dict[str, str] = {}
    for _, code, severity in fires_at(detector, events):
        result[code] = result.get(code, "") + severity[0]
    return result


@cases(
    "events, expected",
    {
        "two rounds of two": (looks("abab"), {"calls_in_turn": "m"}),
        "three rounds of two": (looks("ababab"), {"calls_in_turn": "mmc"}),
        "in another order each round": (looks("abbaab"), {"calls_in_turn": "mc"}),
        "other results are progress": ([look(s, "ab"[s % 2], f"{s}") for s in range(20)], {}),
        "edit and look": (in_turn(range(0, 24, 2), edit, look), {}),
        "five count as three": (pressed("ababababab"), {"cycle": "mmmmc"}),
        "of such a tool and a look, which shows no change": (
            in_turn(range(0, 8, 2), lambda s: event(s, "press", "key=a", output_head="ok"), look),
            {"cycle": "ccc"},
        ),
        "results that nobody tells count half": (
            [event(s, "read_file", f"path=/srv/{'ab'[s % 2]}") for s in range(8)],
            {"cycle": "mmm"},
        ),
    },
)
def test_rounds(events: Sequence[ActionEvent], expected: dict[str, str]) -> None:
    assert found(events) == expected


@pytest.mark.parametrize("period", range(2, 6))
def test_three_rounds_are_a_stop_whatever_their_length(period: int) -> None:
    detector = Cycle(circles=(16, 16, 16))
    result = fires_at(detector, looks("abcdefgh"[:period] * 3))
    assert result[-1] == (3 * period - 1, "calls_in_turn" if period == 2 else "cycle", "critical")
    assert [severity for _, _, severity in result].count("critical") == 1


@cases(
    "events, expected",
    {
        "three things looked up three times are a hint": (looks("abc" * 3 + "d"), "m"),
        "one new call in three": (looks("".join(f"ab{c}" for c in "cdefghijklmn")), "mmhhhhccccccccc"),
    },
)
def test_circles(events: Sequence[ActionEvent], expected: str) -> None:
    assert found(events, Cycle(rounds=(16, 16, 16), replay=(16, 16, 16))).get("going_in_circles", "") == expected


def test_a_cycle_is_found_in_parallel_calls_in_attempts_alone_and_by_the_fifteenth_call_as_gemini_says() -> None:
    rng = Random(1)
    events: list[ActionEvent] = []
    for turn in range(3):
        proposed = [call(turn * 10, "read_file", f"path=/srv/{what}", output_head=f"text of {what}") for what in "abcd"]
        events += [pair[0] for pair in rng.sample(proposed, 4)]
        events += [pair[1] for pair in rng.sample(proposed, 4)]
    assert found(events)["cycle"][-1] == "c"
    attempts = [e.model_copy(update={"kind": Kind.PROPOSED, "output_head": None}) for e in looks("ab" * 5)]
    assert found(attempts) == {"cycle": "mmmmc"}
    assert "c" in found(looks("abc" * 5))["cycle"]
    assert found(looks("abc" * 5), Cycle(rounds=(5, 5, 5), circles=(16, 16, 16))) == {"cycle": "c"}


@cases(
    "events, expected",
    {
        "a round of eight once more": (looks("abcdefgh" * 2), "m"),
        "one and a half rounds": (looks("abcdefgh" * 2 + "abcd"), "mmhhc"),
        "fifteen calls once more": (looks("abcdefghijklmno" * 2), "mmhhhhhh"),
        "more calls than are remembered": (looks("abcdefghijklmnop" * 2), ""),
        "answers that say little, for twice as long": (pressed("abcdefgh" * 3), "m"),
    },
)
def test_a_long_round_is_replayed(events: Sequence[ActionEvent], expected: str) -> None:
    assert found(events, Cycle(circles=(16, 16, 16))).get("replay", "") == expected
