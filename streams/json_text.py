"""How much a JSON text from outside may hold, before it is parsed: empty lists become fifty times their bytes."""

from typing import Final

MAX_VALUES: Final = 500_000
"""Of one text, at most; commas and brackets within its strings count too, which prose of 8 MiB has fewer of."""


def has_too_many(text: bytes) -> bool:
    """Whether there may be more values in it than are read."""
    return text.count(b",") + text.count(b"[") + text.count(b"{") > MAX_VALUES
