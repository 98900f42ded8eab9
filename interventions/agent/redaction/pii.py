"""Redaction of personal data, only with `redact_pii`, as a task may be about an address.

The kinds are Agent Sentinel's: those of `pii_patterns`, and texts that look like API keys. Each is replaced by its kind
and a short digest under the key of digests, so that different persons stay distinct.
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
    """Return the text with `[redacted:kind:digest]` in place of personal data."""
    instead = partial(_instead, key)
    text = redact_personal(text, instead=instead)
    return _KEY_LIKE.sub(lambda found: instead("api_key_like", found.group()), text)


def without_pii(value: Any, key: bytes) -> Any:
    """Return a copy of a JSON value, without personal data in its texts and keys. Numbers are unchanged."""
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
