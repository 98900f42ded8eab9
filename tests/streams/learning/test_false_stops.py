"""A budget for false stops: what so many sessions can show, and which steps keep it."""

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.streams.learning.false_stops import choose, most_stops, sessions_needed, upper_bound

COUNTS = st.integers(0, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
BUDGETS = st.floats(0.002, 0.2)
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


@pytest.mark.parametrize(("stops", "sessions"), [(1, 10), (5, 50), (7, 900), (40, 41)])
def test_so_few_stops_or_fewer_have_a_probability_of_five_percent_at_the_bound(stops: int, sessions: int) -> None:
    share = upper_bound(stops, sessions)
    likely = sum(comb(sessions, k) * share**k * (1 - share) ** (sessions - k) for k in range(stops + 1))
    assert likely == pytest.approx(0.05)


@given(COUNTS)
def test_the_bound_is_above_the_share_rises_with_stops_and_falls_with_sessions(counts: tuple[int, int]) -> None:
    stops, sessions = counts
    bound = upper_bound(stops, sessions)
    assert (stops / sessions if sessions else 0) < bound <= 1.0 or stops == sessions
    assert upper_bound(stops, sessions + 1) < bound or stops == sessions
    assert upper_bound(stops + 1, sessions + 1) >= bound or stops == sessions


@given(BUDGETS, st.integers(0, 2000))
def test_no_more_stops_are_allowed_than_keep_the_budget(budget: float, sessions: int) -> None:
    most = most_stops(budget, sessions)
    assert (most >= 0) == (sessions >= sessions_needed(budget))
    assert most < 0 or upper_bound(most, sessions) <= budget
    assert upper_bound(most + 1, sessions) > budget


@pytest.mark.parametrize(("budget", "sessions"), [(1 / 500, 1497), (1 / 100, 299), (1 / 20, 59)])
def test_a_budget_needs_so_many_sessions(budget: float, sessions: int) -> None:
    assert sessions_needed(budget) == sessions


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
