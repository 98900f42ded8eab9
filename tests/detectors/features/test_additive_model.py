from math import isclose
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from haltline.detectors.features.additive_model import MAX_BINS, Feature, Model, shipped
from haltline.detectors.features.novelty import VALUES
from haltline.detectors.session.stagnation import SHIPPED
from tests.builders import cases

ADAPTER = TypeAdapter(Model)

numbers = st.floats(-1e6, 1e6)


def feature(**changed: Any) -> dict[str, Any]:
    return {"name": "a", "edges": [1.0], "points": [0.0, 1.0]} | changed


def model(**changed: Any) -> dict[str, Any]:
    return {"name": "m", "version": 1, "base": 0.0, "features": [feature()]} | changed


@cases(
    "fields, message",
    {
        "too few points": (model(features=[feature(points=[1.0])]), "expected points for 2 bins, got 1"),
        "edges that fall": (model(features=[feature(edges=[2.0, 1.0], points=[0, 0, 0])]), "edges in ascending order"),
        "too many bins": (
            model(features=[feature(edges=list(range(MAX_BINS)), points=[0.0] * (MAX_BINS + 1))]),
            "at most 63 items",
        ),
        "points out of bounds": (model(features=[feature(points=[0, 101])]), "less than or equal to 100"),
        "a base that is no number": (model(base=float("nan")), "finite number"),
        "no feature": (model(features=[]), "at least 1 item"),
    },
)
def test_a_wrong_model_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ADAPTER.validate_python(fields)


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Any model that is allowed."""
    features = []
    for number in range(draw(st.integers(1, 5))):
        edges = sorted(draw(st.sets(numbers, max_size=8)))
        points = draw(st.lists(st.floats(-100, 100), min_size=len(edges) + 1, max_size=len(edges) + 1))
        features.append(Feature(f"f{number}", tuple(edges), tuple(points)))
    return Model("any", draw(st.integers(1, 9)), draw(st.floats(-100, 100)), tuple(features), {"seed": 1}, {"of": "1"})


@given(models(), st.data())
def test_the_score_is_the_sum_over_the_bins_that_hold_the_values(any_model: Model, data: st.DataObject) -> None:
    values = tuple(data.draw(numbers | st.sampled_from(f.edges or (0.0,))) for f in any_model.features)
    total = any_model.base
    for f, value in zip(any_model.features, values, strict=True):
        total += f.points[sum(edge < value for edge in f.edges)]
    assert isclose(any_model.score(values), total, rel_tol=1e-9, abs_tol=1e-9)


def test_the_shipped_model_is_of_what_is_measured() -> None:
    assert shipped("stagnation") == SHIPPED
    assert [f.name for f in SHIPPED.features] == [value.name for value in VALUES]


@pytest.mark.parametrize(("number", "value"), [pytest.param(n, v, id=v.name) for n, v in enumerate(VALUES)])
def test_less_progress_never_lowers_the_shipped_score(number: int, value: Any) -> None:
    points = list(SHIPPED.features[number].points)
    assert points == sorted(points, reverse=not value.rises)
