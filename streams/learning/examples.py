"""Judged sessions as what is learned from: which steps came to nothing, and how much each counts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from haltline.detectors.features.novelty import VALUES
from haltline.streams.learning.fit import Floats
from haltline.streams.learning.spans import Span
from haltline.streams.learning.steps import Steps

_LENGTH_EXPONENT = 0.35
"""A step counts the length of its session to minus this: a long session counts more, but not in proportion."""


@dataclass(frozen=True, slots=True)
class Example:
    """One session, and what was judged of it."""

    steps: Steps
    runaway: Span | None = None
    """None: it was sound."""
    sound_weight: float = 1.0
    """How much the steps of sound work count."""
    runaway_weight: float = 1.0


def arrays(examples: Sequence[Example]) -> tuple[Floats, Floats, Floats]:
    """Values, whether a step was fruitless, and weights, of all steps: as `fit` takes them."""
    values: list[tuple[float, ...]] = []
    fruitless: list[float] = []
    weights: list[float] = []
    for example in examples:
        steps = example.steps
        scale = len(steps.numbers) ** -_LENGTH_EXPONENT if steps.numbers else 0.0
        for number, row in zip(steps.numbers, steps.values, strict=True):
            is_fruitless, weight = _judged(example, number)
            values.append(row)
            fruitless.append(float(is_fruitless))
            weights.append(weight * scale)
    return np.array(values, dtype=np.float64).reshape(-1, len(VALUES)), np.array(fruitless), np.array(weights)


def _judged(example: Example, number: int) -> tuple[bool, float]:
    span = example.runaway
    if span is None or number < span.begins:
        return False, example.sound_weight
    if span.signal - 1 <= number <= span.ends:  # one step earlier: a hint is worth more than a stop
        return True, example.runaway_weight
    return False, 0.0
