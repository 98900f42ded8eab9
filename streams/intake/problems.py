"""What is answered in place of what was asked for."""

from pydantic import ValidationError


class Bad(Exception):
    """What was sent cannot be used: an HTTP status, and where, what was expected and what was given."""

    def __init__(self, status: int, *problems: str) -> None:
        super().__init__(*problems)
        self.status = status
        self.problems = problems


class Busy(Exception):
    """As many requests are answered as there is room for."""


def bad_values(error: ValueError, under: str = "") -> Bad:
    """Of values that settings or a record do not take: each by its name."""
    if not isinstance(error, ValidationError):
        return Bad(400, str(error))
    found = error.errors(include_url=False, include_context=False)
    return Bad(
        400,
        *(
            f"{under}{'.'.join(map(str, one['loc']))}: expected another value ({one['msg']}), got {one['input']!r:.80}"
            for one in found
        ),
    )
