"""What belongs to persons: taken out only where `redact_pii` asks for it, for an address may be what a task is about.

The kinds are Agent Sentinel's. Numbers of cards are those of 13 to 19 digits whose last one is right (Luhn). In
place of each
stands its kind and a short digest of it under the key of digests, so that two persons are still two.
"""

import re
from hashlib import blake2b
from typing import Any

_KEY_LIKE = r"(?<![\w/+=-])(?=[A-Za-z_-]*\d)(?=[\d_-]*[A-Za-z])[A-Za-z0-9]{2,8}[_-][A-Za-z0-9]{24,128}(?![\w/+=-])"
_KINDS = tuple(
    (kind, re.compile(form))
    for kind, form in (
        ("credit_card", r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-])"),
        ("email", r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"),
        ("us_ssn", r"(?<![\d-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d-])"),
        ("phone_us", r"(?<![\w+(.-])(?:\+?1[ .-]?)?(?:\([2-9]\d{2}\) ?|[2-9]\d{2}[ .-])[2-9]\d{2}[ .-]\d{4}(?![\w-])"),
        ("api_key_like", _KEY_LIKE),
    )
)
_TEN = 10


def without_pii_text(text: str, key: bytes) -> str:
    """The text with `[redacted:kind:digest]` in place of what belongs to persons."""
    for kind, form in _KINDS:
        text = form.sub(lambda found, kind=kind: _instead(kind, found.group(), key), text)  # type: ignore[misc]
    return text


def without_pii(value: Any, key: bytes) -> Any:
    """A copy of a JSON value, its texts and keys without what belongs to persons. Numbers stay as they are."""
    if isinstance(value, str):
        return without_pii_text(value, key)
    if isinstance(value, dict):
        return {without_pii_text(name, key): without_pii(item, key) for name, item in value.items()}
    if isinstance(value, list):
        return [without_pii(item, key) for item in value]
    return value


def _instead(kind: str, found: str, key: bytes) -> str:
    if kind == "credit_card" and not _is_card(found):
        return found
    told = blake2b(found.encode(errors="replace"), digest_size=4, key=key[:64]).hexdigest()
    return f"[redacted:{kind}:{told}]"


def _is_card(digits: str) -> bool:
    """Whether the check digit is right, as Luhn's formula has it."""
    numbers = [int(digit) for digit in reversed(digits) if digit.isdigit()]
    doubled = (sum(divmod(number * 2, _TEN)) if place % 2 else number for place, number in enumerate(numbers))
    return sum(doubled) % _TEN == 0 and len(set(numbers)) > 1
