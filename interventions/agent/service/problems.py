"""The errors that requests are answered with, and the checks of their fields."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

_M = TypeVar("_M", bound=BaseModel)


class Bad(Exception):
    """A request cannot be used: an HTTP status, and where, what was expected and what was given."""

    def __init__(self, status: int, *problems: str) -> None:
        super().__init__(*problems)
        self.status = status
        self.problems = problems


class TooOften(Exception):
    """A key exceeds its rate: why, and the seconds until it may be used again."""

    def __init__(self, why: str, after_s: float) -> None:
        super().__init__(why)
        self.after_s = after_s


class Busy(Exception):
    """The limit of simultaneous requests is reached."""


def bad_values(error: ValueError, under: str = "") -> Bad:
    """Return a Bad for values that settings or a record refuse: each by its name."""
    if not isinstance(error, ValidationError):
        return Bad(400, str(error))
    return Bad(400, *(_problem(one, under) for one in error.errors(include_url=False, include_context=False)))


def read(model: type[_M], fields: Mapping[str, Any]) -> _M:
    """Return a message from its fields. Raises Bad."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise bad_values(error) from None


def _problem(error: Mapping[str, Any], under: str) -> str:
    """Return the text of one error; for values that do not fit together, the check's own message."""
    name = f"{under}{'.'.join(map(str, error['loc']))}"
    if error["type"] == "missing":
        return f"{name}: expected a value, got none"
    if error["type"] == "extra_forbidden":
        return f"{name}: expected no such field, got {error['input']!r:.80}"
    text = str(error["msg"]).removeprefix("Value error, ")
    if not error["loc"]:
        return text
    return f"{name}: expected another value ({text}), got {error['input']!r:.80}"


def object_of(value: Any, what: str = "the body") -> dict[str, Any]:
    """Return the value if it is an object. Raises Bad."""
    if not isinstance(value, dict):
        raise Bad(400, f"{what}: expected an object, got {type(value).__name__}")
    return value


def text_of(fields: Mapping[str, Any], name: str) -> str:
    """Return a required text. Raises Bad."""
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise Bad(400, f"{name}: expected a text, got {value!r:.80}")
    return value
