"""Results of which the producer shows only a placeholder, as of screenshots: two that look alike may differ."""

from haltline.detectors.commands.model import holds_one
from haltline.detectors.commands.rows import expression_of
from haltline.schemas.events import ActionEvent

_CHARS = 400
_CUES = ("omitted", "image", "screenshot", "redacted", "base64", "binary", "elided", "truncated", "cleared")
_PLACEHOLDER = expression_of("a result stands for another one")


def is_placeholder(event: ActionEvent) -> bool:
    """Return whether the result says only that an image, or other data, was left out."""
    head = event.output_head
    if not head or len(head) > _CHARS or event.error:
        return False
    text = head.lower()
    return holds_one(text, _CUES) and _PLACEHOLDER.fullmatch(text) is not None
