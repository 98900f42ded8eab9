"""Results of which the producer shows only a placeholder, as of screenshots: two that look alike may differ."""

from haltline.detectors.commands.model import holds_one
from haltline.schemas import expressions as re
from haltline.schemas.events import ActionEvent

_CHARS = 400
_CUES = ("omitted", "image", "screenshot", "redacted", "base64", "binary", "elided", "truncated", "cleared")
_PLACEHOLDER = re.compile(
    r"\A\W*(?:(?:old|tool|image|screenshot|png|jpe?g|binary|base64|media|audio|video|data|content|output|result|file|of|the|a|was"
    r"|taken|returned|captured|successfully|here|text|type|source|media_type|url|image_url|detail|auto|high|low|gif|webp"
    r"|bytes|kb|\d+)\W+)*(?:omitted|elided|redacted|image|screenshot|placeholder|truncated|cleared)"
    r"(?:\W+(?:image|screenshot|png|jpe?g|base64|media_type|type|data|source|omitted|elided|taken|captured|returned|text"
    r"|successfully|url|image_url|detail|auto|high|low|binary|content|bytes|kb|\d+))*\W*",
)


def is_placeholder(event: ActionEvent) -> bool:
    """Return whether the result says only that an image, or other data, was left out."""
    head = event.output_head
    if not head or len(head) > _CHARS or event.error:
        return False
    text = head.lower()
    return holds_one(text, _CUES) and _PLACEHOLDER.fullmatch(text) is not None
