"""Training examples from judged sessions: which steps were fruitless, and their weights."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from haltline.detectors.features.novelty import VALUES
from haltline.streams.learning.fit import Floats
from haltline.streams.learning.spans import Span
from haltline.streams.learning.steps import Steps

_LENGTH_EXPONENT = 0.35
"""Each step is weighted by its session's length to the power of minus this, so that long sessions count more, but not
in proportion."""


@dataclass(frozen=True, slots=True)
class Example:
    """One session, with its judgement."""

    steps: Steps
    runaway: Span | None = None
    """The runaway span; None: it was sound."""
    sound_weight: float = 1.0
    """The weight of the steps of sound work."""
    runaway_weight: float = 1.0


def arrays(examples: Sequence[Example]) -> tuple[Floats, Floats, Floats]:
    """Return values, fruitless flags and weights of all steps, as input of `fit`."""
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
    if span.signal - 1 <= number <= span.ends:  # one step earlier: a hint is better than a stop
        return True, example.runaway_weight
    return False, 0.0
