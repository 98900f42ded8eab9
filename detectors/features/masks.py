"""What varies by itself in a text is masked before texts are compared: the rows of `commands/rows/masks.txt`."""

from typing import TypeAlias

from haltline.detectors.commands.rows import cells_of
from haltline.schemas import expressions as re

Masks: TypeAlias = tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...]
"""For each: signs of which the text has one, in lower case; the expression, and what takes its place."""


def masks_of(*names: str) -> Masks:
    """Return the masks of these kinds of texts, in the order of the rows."""
    return tuple(
        (tuple(signs.split()) or ("",), re.compile(expression), instead)
        for name, signs, expression, instead in cells_of("masks")
        if name in names
    )


def masked(text: str, masks: Masks) -> str:
    """Mask what varies; the same object if nothing does."""
    low = text.lower()
    for signs, expression, instead in masks:
        for sign in signs:
            if sign in low:
                text = expression.sub(instead, text)
                low = text.lower()
                break
    return text
