"""What varies by itself in a text is masked before texts are compared: the rows of `commands/rows/masks.txt`."""

from typing import TypeAlias

from haltline.detectors.commands.model import holds_one
from haltline.detectors.commands.rows import cells_of
from haltline.schemas import expressions as re

Masks: TypeAlias = tuple[tuple[str, tuple[str, ...], re.Pattern[str], str], ...]
"""For each: a sign and others, of which the text has one, in lower case; the expression, and what takes its place."""


def masks_of(*names: str) -> Masks:
    """Return the masks of these kinds of texts, in the order of the rows."""
    found: list[tuple[str, tuple[str, ...], re.Pattern[str], str]] = []
    for name, signs, expression, instead in cells_of("masks"):
        if name in names:
            first, *others = signs.split() or [""]
            found.append((first, tuple(others), re.compile(expression), instead))
    return tuple(found)


def masked(text: str, masks: Masks) -> str:
    """Mask what varies; the same object if nothing does."""
    low = text.lower()
    for sign, others, expression, instead in masks:
        if sign in low or (others and holds_one(low, others)):
            text = expression.sub(instead, text)
            low = text.lower()
    return text
