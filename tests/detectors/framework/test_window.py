import pytest

from haltline.detectors.framework.window import INDEX, Entry, seconds, within


def entries(*seconds_: float) -> list[Entry]:
    return [[round(s * 1000), i, f"e{i}", i] for i, s in enumerate(seconds_)]


@pytest.mark.parametrize(
    ("times", "span_s", "expected"),
    [
        pytest.param((), 60, [], id="nothing"),
        pytest.param((5,), 60, [5], id="one"),
        pytest.param((0, 30, 60), 60, [0, 30, 60], id="exactly the span"),
        pytest.param((0, 30, 61), 60, [30, 61], id="a second more than the span"),
        pytest.param((60, 30, 0), 60, [0, 30, 60], id="the newest is the earliest"),
        pytest.param(
            (0, 50, 100, 40), 60, [0, 40, 50], id="a late one between others: the fuller side, the earlier of two"
        ),
        pytest.param((0, 50, 90, 100, 60), 60, [50, 60, 90, 100], id="a late one between others: the fuller side"),
        pytest.param((0, 1, 2, 500), 60, [500], id="those before are too old for the newest"),
        pytest.param((7, 7, 7), 60, [7, 7, 7], id="all at once"),
    ],
)
def test_the_fullest_stretch_that_holds_the_newest(
    times: tuple[float, ...], span_s: float, expected: list[float]
) -> None:
    assert [int(e[0]) / 1000 for e in within(entries(*times), span_s * 1000)] == expected


def test_by_index() -> None:
    assert [e[INDEX] for e in within(entries(0, 900, 5, 70, 8), 2, key=INDEX)] == [2, 3, 4]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        pytest.param((), 0, id="nothing"),
        pytest.param((12, 0, 6), 12, id="in any order"),
        pytest.param((0, 11.6), 12, id="rounded"),
    ],
)
def test_whole_seconds(times: tuple[float, ...], expected: int) -> None:
    assert seconds(entries(*times)) == expected
