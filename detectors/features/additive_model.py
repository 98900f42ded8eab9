"""An additive model: each feature adds points by the bin of its value, and their sum is the score.

Such a model can be read as a table. Its points are log odds, so at a score of 0 both outcomes are equally likely. It is
trained by `haltline.streams.learning` and stored as JSON, with its training data and quality.
"""

from bisect import bisect_left
from functools import cached_property, reduce
from importlib.resources import files
from itertools import pairwise
from operator import add, getitem
from typing import Annotated, TypeAlias

import pydantic
from pydantic import Field, TypeAdapter, model_validator

from haltline.schemas.record import Values

_CONFIG = pydantic.ConfigDict(extra="forbid", allow_inf_nan=False)
_Points: TypeAlias = Annotated[float, Field(ge=-100, le=100)]
MAX_BINS = 64
_CACHED_VALUES = 2048
"""Values of a feature whose points are kept: a score is computed at every step, and most values are counts."""


@pydantic.dataclasses.dataclass(frozen=True, config=_CONFIG)
class Feature:
    """The points of one feature."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    edges: Annotated[tuple[float, ...], Field(max_length=MAX_BINS - 1)]
    """Boundaries of the bins, ascending; a value on a boundary is in the lower bin."""
    points: Annotated[tuple[_Points, ...], Field(max_length=MAX_BINS)]
    """By bin: one more than there are boundaries."""

    @model_validator(mode="after")
    def _in_order(self) -> "Feature":
        if len(self.points) != len(self.edges) + 1:
            raise ValueError(f"expected points for {len(self.edges) + 1} bins, got {len(self.points)}")
        if any(one >= other for one, other in pairwise(self.edges)):
            raise ValueError("expected edges in ascending order")
        return self

    def of(self, value: float) -> float:
        """The points of a value."""
        return self.points[bisect_left(self.edges, value)]

    @cached_property
    def least(self) -> float:
        """The points of the bin with the fewest."""
        return min(self.points)


@pydantic.dataclasses.dataclass(frozen=True, config=_CONFIG)
class Model:
    """Points for all features, with the origin of the model."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    version: Annotated[int, Field(ge=1)]
    base: _Points
    """Constant term of every score."""
    features: Annotated[tuple[Feature, ...], Field(min_length=1, max_length=64)]
    trained: Values = Field(default_factory=dict)
    """Training data, time and seed."""
    quality: Values = Field(default_factory=dict)
    """Quality, by cross-validation."""

    def points(self, values: tuple[float, ...]) -> list[float]:
        """The points of each feature, in the order of the features."""
        return [feature.of(value) for feature, value in zip(self.features, values, strict=True)]

    def score(self, values: tuple[float, ...]) -> float:
        """The log odds for a set of values, in the order of the features."""
        return reduce(add, map(getitem, self._tables, values), self.base)

    @cached_property
    def _tables(self) -> list["_Table"]:
        return [_Table(feature) for feature in self.features]


class _Table(dict[float, float]):
    """The points of a feature by value, computed at its first use."""

    def __init__(self, feature: Feature) -> None:
        super().__init__()
        self._feature = feature

    def __missing__(self, value: float) -> float:
        points = self._feature.of(value)
        if len(self) < _CACHED_VALUES:
            self[value] = points
        return points


def shipped(name: str) -> Model:
    """The model of this release for a detector, read from `NAME.model.json` in this package."""
    return TypeAdapter(Model).validate_json(
        files("haltline.detectors.features").joinpath(f"{name}.model.json").read_bytes()
    )
