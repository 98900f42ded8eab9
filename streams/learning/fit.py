"""The training of a model: boosted single splits, added up into points by feature and bin.

Each tree has one split, so the sum of all trees is a sum of step functions of one feature each: an additive model. More
of a feature that means less progress can only add points (monotone constraints), which keeps a model of few sessions
readable. With a prior, boosting starts from its scores, and the result is added to its points.
"""

from itertools import pairwise

import lightgbm
import numpy as np
from numpy.typing import NDArray

from haltline.detectors.features.additive_model import MAX_BINS, Feature, Model
from haltline.detectors.features.novelty import VALUES
from haltline.schemas.record import Values

Floats = NDArray[np.float64]

ROUNDS = 250
PLACES = 3

_PARAMETERS = {
    "objective": "binary",
    "num_leaves": 2,
    "learning_rate": 0.1,
    "min_data_in_leaf": 60,
    "max_bin": 32,
    "lambda_l2": 5.0,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "monotone_constraints_method": "basic",
    # Deterministic: the same points for the same steps, on every machine.
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}


def fit(
    values: Floats,
    fruitless: Floats,
    weights: Floats,
    *,
    seed: int,
    name: str,
    version: int = 1,
    trained: Values | None = None,
    prior: Model | None = None,
    rounds: int = ROUNDS,
) -> Model:
    """Learn the points of each feature.

    Args:
        values: a row per step, a column per feature, as `novelty.VALUES`.
        fruitless: 1 for a step of a runaway, 0 for one of sound work.
        weights: of the steps; steps with 0 are left out.
        seed: of the sampling; the same seed and steps give the same model.
        name: of the model.
        version: of the model.
        trained: a description of the training data, for the model's reader.
        prior: a model to start from.
        rounds: the number of splits added up.

    Raises:
        ValueError: there are no steps of one of the kinds.

    """
    used = weights > 0
    if not {0.0, 1.0} <= set(fruitless[used].tolist()):
        raise ValueError("expected steps of runaways and of sound sessions, got only one kind")
    init = None if prior is None else np.array([prior.score(tuple(row)) for row in values[used].tolist()])
    data = lightgbm.Dataset(values[used], fruitless[used], weight=weights[used], init_score=init)
    constraints = [1 if value.rises else -1 for value in VALUES]
    parameters = _PARAMETERS | {"monotone_constraints": constraints, "seed": seed}
    if used.sum() < 4 * _PARAMETERS["min_data_in_leaf"]:  # type: ignore[operator]  # the dictionary holds many types
        parameters["min_data_in_leaf"] = max(2, int(used.sum()) // 8)
    booster = lightgbm.train(parameters, data, num_boost_round=rounds)
    base, steps = _splits(booster)
    features = tuple(
        _feature(value.name, steps.get(number, []), prior.features[number] if prior is not None else None)
        for number, value in enumerate(VALUES)
    )
    base = base + prior.base if prior is not None else base
    return Model(name, version, round(base, PLACES), features, trained or {})


def _splits(booster: lightgbm.Booster) -> tuple[float, dict[int, list[tuple[float, float, float]]]]:
    """Return the base score, and by feature: `(edge, points below or at it, points above it)`."""
    base, found = 0.0, dict[int, list[tuple[float, float, float]]]()
    for tree in booster.dump_model()["tree_info"]:
        root = tree["tree_structure"]
        if "split_feature" not in root:
            base += root["leaf_value"]
            continue
        left, right = root["left_child"]["leaf_value"], root["right_child"]["leaf_value"]
        found.setdefault(root["split_feature"], []).append((root["threshold"], left, right))
    return base, found


def _feature(name: str, splits: list[tuple[float, float, float]], prior: Feature | None) -> Feature:
    """Return the sum of the splits as bins; adjacent bins with equal points are merged."""
    edges = sorted({round(edge, 6) for edge, _, _ in splits} | set(prior.edges if prior is not None else ()))
    middles = [edges[0] - 1, *((a + b) / 2 for a, b in pairwise(edges)), edges[-1] + 1] if edges else [0.0]
    points = [
        round(
            sum(low if middle <= edge else high for edge, low, high in splits) + (prior.of(middle) if prior else 0.0),
            PLACES,
        )
        for middle in middles
    ]
    kept = [number for number in range(len(edges)) if points[number] != points[number + 1]]
    while len(kept) >= MAX_BINS:  # for a prior trained on a prior: its smallest step is merged
        kept.remove(min(pairwise(kept), key=lambda pair: abs(points[pair[0]] - points[pair[1]]))[0])
    return Feature(name, tuple(edges[n] for n in kept), (*(points[n] for n in kept), points[-1]))
