import datetime

from haltline.streams.audit.columns import to_arrow
from tests.cases import cases


def cells(name: str, *values: object) -> list[object]:
    column = to_arrow([{name: value} for value in values])[name]
    return [column[index].as_py() for index in range(len(values))]


@cases(
    "name, values, expected",
    {
        "a number beyond 64 bits": ("offset", (1, 2**63, -(2**63)), [1, None, -(2**63)]),
        "half a surrogate pair": ("summary", ("a", "\ud800", None), ["a", None, None]),
        "a number beyond a double": ("cost_usd", (1, 10**400, 0.5), [1.0, None, 0.5]),
        "bytes and none and no bytes": ("raw", (b"\x00\xff", b"", None), [b"\x00\xff", b"", None]),
        "a list with a bad text": ("targets", (["a", "b"], ["\ud800"], [], None), [["a", "b"], [], [], []]),
        "days": ("event_date", (20_000, None), [datetime.date(2024, 10, 4), None]),
        "milliseconds": (
            "timestamp",
            (1_780_000_000_001, None),
            [datetime.datetime(2026, 5, 28, 20, 26, 40, 1000, tzinfo=datetime.UTC), None],
        ),
    },
)
def test_a_cell_that_does_not_fit_is_null_and_the_others_stay(
    name: str, values: tuple[object, ...], expected: list[object]
) -> None:
    assert cells(name, *values) == expected
