"""The table of `fit` gives the same scores as the boosted trees."""

from dataclasses import replace

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haltline.detectors.features.additive_model import MAX_BINS, Feature, Model
from haltline.detectors.features.novelty import VALUES
from haltline.detectors.session.stagnation import SHIPPED
from haltline.streams.learning.fit import PLACES, ROUNDS, Floats, fit, scores_of

Steps = tuple[Floats, Floats, Floats]
few = settings(max_examples=8, deadline=None)
seeds = st.integers(0, 2**16)


def steps(seed: int, rows: int = 400, *, signal: float = 1.0) -> Steps:
    """Values as a session has them, of which the first and the last tell a fruitless step."""
    draw = np.random.default_rng(seed)
    values = draw.integers(0, 12, (rows, len(VALUES))).astype(np.float64)
    shares = [n for n, value in enumerate(VALUES) if not value.rises and value.start == 1.0]
    values[:, shares] = np.round(values[:, shares] / 12, 3)
    odds = signal * (values[:, 0] - 6 - 5 * (values[:, -1] - 0.5))
    fruitless = (draw.random(rows) < 1 / (1 + np.exp(-odds))).astype(np.float64)
    return values, fruitless, draw.uniform(0.2, 1.0, rows)


def trained(
    of: Steps, monkeypatch: pytest.MonkeyPatch, *, prior: Model | None = None
) -> tuple[Model, lightgbm.Booster]:
    """The model, and the trees that it was made of."""
    boosters: list[lightgbm.Booster] = []
    train = lightgbm.train

    def kept(*arguments: object, **named: object) -> lightgbm.Booster:
        boosters.append(train(*arguments, **named))  # type: ignore[arg-type]  # as they came
        return boosters[-1]

    monkeypatch.setattr(lightgbm, "train", kept)
    model = fit(*of, seed=1, name="m", prior=prior)
    monkeypatch.undo()
    return model, boosters[0]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("prior", [pytest.param(None, id="from nothing"), pytest.param(SHIPPED, id="on a prior")])
def test_points_add_up_to_what_the_trees_say(seed: int, prior: Model | None, monkeypatch: pytest.MonkeyPatch) -> None:
    of = steps(seed)
    model, booster = trained(of, monkeypatch, prior=prior)
    rows = [tuple(row) for row in of[0].tolist()]
    before = np.zeros(len(rows)) if prior is None else np.array(scores_of(prior, rows))
    raw = np.asarray(booster.predict(of[0], raw_score=True))
    rounding = (len(VALUES) + 1) * 10**-PLACES
    assert np.abs(np.array(scores_of(model, rows)) - before - raw).max() <= rounding
    assert np.abs(raw).max() > 0.5, "it has learned something"


@given(seeds, st.booleans())
@few
def test_less_progress_never_lowers_a_score(seed: int, on_prior: bool) -> None:
    model = fit(*steps(seed, 300, signal=0.5), seed=seed, name="m", prior=SHIPPED if on_prior else None, rounds=60)
    for value, feature in zip(VALUES, model.features, strict=True):
        assert list(feature.points) == sorted(feature.points, reverse=not value.rises), value.name


def test_steps_of_one_kind_are_refused_also_where_the_other_weighs_nothing() -> None:
    values, _, weights = steps(1)
    of_runaways = (weights > 0.5).astype(np.float64)
    for fruitless, kept in ((weights * 0, weights), (weights * 0 + 1, weights), (of_runaways, of_runaways)):
        with pytest.raises(ValueError, match="expected steps of runaways and of sound sessions, got only one kind"):
            fit(values, fruitless, kept, seed=1, name="m")


def test_a_prior_with_every_bin_taken_stays_within_the_limit() -> None:
    """Learned again and again, edges add up: the least steps of points are given up."""
    edges = tuple(number / 7 for number in range(MAX_BINS - 1))
    full = Feature(VALUES[0].name, edges, tuple(number / 100 for number in range(MAX_BINS)))
    prior = replace(SHIPPED, features=(full, *SHIPPED.features[1:]))
    values, fruitless, weights = steps(3)
    values[:, 0] = np.round(values[:, 0] + np.random.default_rng(3).random(len(values)), 3)
    model = fit(values, fruitless, weights, seed=1, name="m", prior=prior, rounds=ROUNDS)
    points = model.features[0].points
    assert 1 < len(points) <= MAX_BINS
    assert list(points) == sorted(points)
    assert points[-1] > full.points[-1]
    assert model.features[0].edges != full.edges
