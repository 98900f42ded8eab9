"""The limit on values in a JSON text from outside, checked before parsing: an empty list takes 50 times its bytes."""

from typing import Final

MAX_VALUES: Final = 500_000
"""The most values of one text. Commas and brackets in its strings are counted too; 8 MiB of prose has fewer."""


def has_too_many(text: bytes, most: int = MAX_VALUES) -> bool:
    """Return whether the text may hold more values than `most`."""
    return text.count(b",") + text.count(b"[") + text.count(b"{") > most
