"""Where inputs of the core come from, and what of it failed on one."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Place(Protocol):
    """Where an input stands in the log, such as a record of it."""

    @property
    def topic(self) -> str:
        """Its name."""
        ...

    @property
    def partition(self) -> int:
        """From 0."""
        ...

    @property
    def offset(self) -> int:
        """From 0."""
        ...


class Position(NamedTuple):
    """A place in the log without its record."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A detector that raised: never the same as one that found nothing."""

    detector: str
    error: BaseException
