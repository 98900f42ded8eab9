"""What is answered in place of what was asked for."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError


class Bad(Exception):
    """What was sent cannot be used: an HTTP status, and where, what was expected and what was given."""

    def __init__(self, status: int, *problems: str) -> None:
        super().__init__(*problems)
        self.status = status
        self.problems = problems


class TooOften(Exception):
    """A key is used more often than it may be: why, and after how many seconds it may be used again."""

    def __init__(self, why: str, after_s: float) -> None:
        super().__init__(why)
        self.after_s = after_s


class Busy(Exception):
    """As many requests are answered as there is room for."""


def bad_values(error: ValueError, under: str = "") -> Bad:
    """Of values that settings or a record do not take: each by its name."""
    if not isinstance(error, ValidationError):
        return Bad(400, str(error))
    return Bad(400, *(_problem(one, under) for one in error.errors(include_url=False, include_context=False)))


def _problem(error: Mapping[str, Any], under: str) -> str:
    """One of them; where they do not fit together, what the check says itself."""
    text = str(error["msg"]).removeprefix("Value error, ")
    if not error["loc"]:
        return text
    return f"{under}{'.'.join(map(str, error['loc']))}: expected another value ({text}), got {error['input']!r:.80}"
