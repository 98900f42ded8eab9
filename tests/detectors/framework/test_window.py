from haltline.detectors.framework.window import INDEX, Entry, seconds, within
from tests.cases import cases


def entries(*seconds_: float) -> list[Entry]:
    return [[round(s * 1000), i, f"e{i}", i] for i, s in enumerate(seconds_)]


@cases(
    "times, span_s, expected",
    {
        "nothing": ((), 60, []),
        "one": ((5,), 60, [5]),
        "exactly the span": ((0, 30, 60), 60, [0, 30, 60]),
        "a second more than the span": ((0, 30, 61), 60, [30, 61]),
        "the newest is the earliest": ((60, 30, 0), 60, [0, 30, 60]),
        "a late one between others: the fuller side, the earlier of two": ((0, 50, 100, 40), 60, [0, 40, 50]),
        "a late one between others: the fuller side": ((0, 50, 90, 100, 60), 60, [50, 60, 90, 100]),
        "those before are too old for the newest": ((0, 1, 2, 500), 60, [500]),
        "all at once": ((7, 7, 7), 60, [7, 7, 7]),
    },
)
def test_the_fullest_stretch_that_holds_the_newest(
    times: tuple[float, ...], span_s: float, expected: list[float]
) -> None:
    assert [int(e[0]) / 1000 for e in within(entries(*times), span_s * 1000)] == expected


def test_by_index() -> None:
    assert [e[INDEX] for e in within(entries(0, 900, 5, 70, 8), 2, key=INDEX)] == [2, 3, 4]


@cases(
    "times, expected",
    {
        "nothing": ((), 0),
        "in any order": ((12, 0, 6), 12),
        "rounded": ((0, 11.6), 12),
    },
)
def test_whole_seconds(times: tuple[float, ...], expected: int) -> None:
    assert seconds(entries(*times)) == expected
