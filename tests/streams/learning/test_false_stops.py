"""A budget for false stops: what so many sessions can show, and which steps keep it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.streams.learning.false_stops import choose, upper_bound

NAMES = st.frozensets(st.integers(0, 12).map(str))


def nested(sets: list[frozenset[str]]) -> list[frozenset[str]]:
    steps = [sets[0]]
    for one in sets[1:]:
        steps.append(steps[-1] & one)
    return [*steps, frozenset()]


LADDERS = st.dictionaries(st.sampled_from("abcd"), st.lists(NAMES, min_size=1, max_size=4).map(nested), min_size=1)


@pytest.mark.parametrize(
    ("stops", "sessions", "bound"),
    [
        pytest.param(0, 1497, 1 / 500, id="no stop in 1,497: 1 in 500"),
        pytest.param(0, 832, 1 / 278.2, id="no stop in 832: 1 in 278"),
        pytest.param(1, 10, 0.3942, id="a published value"),
        pytest.param(0, 0, 1.0, id="no session shows nothing"),
        pytest.param(3, 3, 1.0, id="all of them"),
    ],
)
def test_the_bound_is_the_exact_one(stops: int, sessions: int, bound: float) -> None:
    assert upper_bound(stops, sessions) == pytest.approx(bound, rel=2e-3)


@given(LADDERS, LADDERS, st.integers(0, 6))
def test_the_chosen_steps_keep_the_budget_and_none_could_be_stricter(
    wrong: dict[str, list[frozenset[str]]], other: dict[str, list[frozenset[str]]], most: int
) -> None:
    right = {
        rule: [other.get(rule, [frozenset()])[0]] * (len(steps) - 1) + [frozenset()] for rule, steps in wrong.items()
    }
    chosen = choose(wrong, right, most)

    def together(steps: dict[str, int]) -> int:
        return len(frozenset().union(*(wrong[rule][step] for rule, step in steps.items())))

    assert chosen.keys() == wrong.keys()
    assert together(chosen) <= most
    assert all(together(chosen | {rule: step - 1}) > most for rule, step in chosen.items() if step)


def test_of_two_rules_the_one_that_finds_runaways_stays() -> None:
    one, two, none = frozenset({"a"}), frozenset({"b"}), frozenset[str]()
    wrong = {"idle": [one, none], "useful": [two, none]}
    right = {"idle": [none, none], "useful": [frozenset({"r"}), none]}
    assert choose(wrong, right, 1) == {"idle": 1, "useful": 0}
