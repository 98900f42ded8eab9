"""Human-readable problems of a record: the place, what was expected and what was received."""

from typing import NamedTuple

from pydantic import ValidationError

from haltline.schemas.record import AS_EPOCH, AS_MOMENT


class Problem(NamedTuple):
    """The first problem of a record."""

    steps: tuple[str, ...]
    """The place: field names from the outermost on; empty: the record itself."""
    kind: str
    """Pydantic's error type."""
    message: str
    """Pydantic's message, without the input."""
    text: str
    """What was expected and what was received; never the whole input."""
    others: int
    """The number of further problems."""

    @property
    def place(self) -> str:
        """The steps as one text, such as `usage.cost_usd`."""
        return ".".join(self.steps) or "the record"

    def __str__(self) -> str:
        more = f" (and {self.others} more)" if self.others else ""
        return f"{self.place}: {self.text}{more}"


def problem_of(error: ValidationError) -> Problem:
    """The first problem of a pydantic error."""
    # A time that is neither a number nor a text has two errors; the second has our text.
    first, *others = (
        found for found in error.errors(include_url=False, include_context=False) if found["loc"][-1:] != (AS_EPOCH,)
    )
    steps = tuple(str(step) for step in first["loc"] if step != AS_MOMENT)
    if first["type"] == "value_error":  # raised by our own checks, whose text names the input
        text = first["msg"].removeprefix("Value error, ")
    else:
        text = f"{first['msg']}, got {first['input']!r:.120}"
    return Problem(steps, first["type"], first["msg"], text, len(others))
