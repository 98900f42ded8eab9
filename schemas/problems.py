"""What is wrong with a record, for people: where, what was expected and what was given."""

from typing import NamedTuple

from pydantic import ValidationError

from haltline.schemas.record import AS_EPOCH, AS_MOMENT


class Problem(NamedTuple):
    """The first of what is wrong."""

    steps: tuple[str, ...]
    """Where: the names of the fields, from the outermost on; none: the record itself."""
    kind: str
    """Pydantic's name of the error."""
    message: str
    """Pydantic's own words, without the input."""
    text: str
    """What was expected and what was received; never the whole input."""
    others: int
    """How much more is wrong."""

    @property
    def place(self) -> str:
        """The steps as one text, such as `usage.cost_usd`."""
        return ".".join(self.steps) or "the record"

    def __str__(self) -> str:
        more = f" (and {self.others} more)" if self.others else ""
        return f"{self.place}: {self.text}{more}"


def problem_of(error: ValidationError) -> Problem:
    """The first of what pydantic found."""
    # Of a time that is neither a number nor a text there are two errors; the second says it as we do.
    first, *others = (
        found for found in error.errors(include_url=False, include_context=False) if found["loc"][-1:] != (AS_EPOCH,)
    )
    steps = tuple(str(step) for step in first["loc"] if step != AS_MOMENT)
    if first["type"] == "value_error":  # raised by our own checks, which say what was received
        text = first["msg"].removeprefix("Value error, ")
    else:
        text = f"{first['msg']}, got {first['input']!r:.120}"
    return Problem(steps, first["type"], first["msg"], text, len(others))
