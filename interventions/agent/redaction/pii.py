"""What belongs to persons: taken out only where `redact_pii` asks for it, for an address may be what a task is about.

The kinds are Agent Sentinel's: those of `pii_patterns`, and what looks like a key of some service. In place of each
stands its kind and a short digest of it under the key of digests, so that two persons are still two.
"""

import re
from functools import partial
from hashlib import blake2b
from typing import Any

from haltline.interventions.agent.redaction.pii_patterns import redact_personal

_KEY_LIKE = re.compile(
    r"(?<![\w/+=-])(?=[A-Za-z_-]*\d)(?=[\d_-]*[A-Za-z])[A-Za-z0-9]{2,8}[_-][A-Za-z0-9]{24,128}(?![\w/+=-])"
)


def without_pii_text(text: str, key: bytes) -> str:
    """The text with `[redacted:kind:digest]` in place of what belongs to persons."""
    instead = partial(_instead, key)
    text = redact_personal(text, instead=instead)
    return _KEY_LIKE.sub(lambda found: instead("api_key_like", found.group()), text)


def without_pii(value: Any, key: bytes) -> Any:
    """A copy of a JSON value, its texts and keys without what belongs to persons. Numbers stay as they are."""
    if isinstance(value, str):
        return without_pii_text(value, key)
    if isinstance(value, dict):
        return {without_pii_text(name, key): without_pii(item, key) for name, item in value.items()}
    if isinstance(value, list):
        return [without_pii(item, key) for item in value]
    return value


def _instead(key: bytes, kind: str, found: str) -> str:
    digest = blake2b(found.encode(errors="replace"), digest_size=4, key=key[:64]).hexdigest()
    return f"[redacted:{kind}:{digest}]"
