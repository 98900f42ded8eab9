"""Every setting declares its direction of strictness and its meaning."""

from dataclasses import fields

from haltline.detectors import ALL
from haltline.detectors.framework.strictness import Stricter, direction_of, stricter
from tests.cases import cases


def test_every_setting_declares_which_way_it_is_stricter() -> None:
    for detector in ALL:
        for setting in fields(detector):
            declared = direction_of(setting.type)
            assert isinstance(declared, Stricter), (
                f"{detector.id}.{setting.name}: expected Stricter.X in its annotation"
            )
            default = getattr(detector(), setting.name)
            assert stricter(declared, default, default) == default


@cases(
    "direction, one, other, expected",
    {
        "the lower count": (Stricter.LOWER, 3, 5, 3),
        "the lower count, said later": (Stricter.LOWER, 5, 3, 3),
        "the longer window": (Stricter.HIGHER, 60.0, 10, 60.0),
        "steps one by one, still in order": (Stricter.LOWER, (3, 4, 9), (2, 6, 7), (2, 4, 7)),
        "limits key by key, and a limit is stricter than none": (
            Stricter.LOWER,
            {"tokens": 100.0, "calls": 9.0},
            {"tokens": 500.0, "cost_usd": 2.0},
            {"tokens": 100.0, "calls": 9.0, "cost_usd": 2.0},
        ),
        "a limit where there was none": (Stricter.LOWER, None, 10.0, 10.0),
        "a limit is not taken away": (Stricter.LOWER, 10.0, None, 10.0),
        "both lists, each item once": (Stricter.MORE, ("a", "b"), ("b", "c"), ("a", "b", "c")),
        "no direction: the last word": (Stricter.NEITHER, "overlap", "jaccard", "jaccard"),
    },
)
def test_the_stricter_of_two_values(direction: Stricter, one: object, other: object, expected: object) -> None:
    assert stricter(direction, one, other) == expected
