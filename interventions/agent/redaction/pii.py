"""Personal data in text, recognized by its form and replaced by `[redacted:kind]`, like secrets.

The kinds are those of Agent Sentinel: e-mail addresses, US social security numbers, US telephone numbers, and the
numbers of payment cards (Luhn's check digit, ISO/IEC 7812-1 annex B). Data without a distinctive form, such as names,
is not found. The agent's side leaves personal data in by default (`redact_pii`), as rules evaluate the recipients of a
mail. The audit removes it.

With `redact_pii`, texts that look like API keys are removed as well, and each mark has a short digest under the key of
digests, so that different persons stay distinct.
"""

from collections.abc import Collection
from typing import Any, Final

from haltline.interventions.agent.redaction.marks import mark
from haltline.schemas import expressions as re

_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9])"
)
_SSN = re.compile(r"(?<![\w.-])(?!000|666|9)\d{3}-(?!00)\d\d-(?!0000)\d{4}(?![\w-])", re.ASCII)
_CARD = re.compile(r"(?<![\w.-])[2-6]\d{3}(?:[ -]?\d{2,6}){2,4}(?![\w-])", re.ASCII)
_PHONE = re.compile(r"(?<![\w.-])(?:\+?1[ .-])?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?![\w-])", re.ASCII)
_CARD_DIGITS = range(14, 20)  # 13 digits have not been issued for decades, and are the length of times in milliseconds


def is_card_number(text: str) -> bool:
    """Return whether it has 14 to 19 digits with a valid Luhn check digit, and only one kind of separator."""
    digits = [int(one) for one in text if one.isdecimal()]
    if len(digits) not in _CARD_DIGITS or (" " in text and "-" in text):
        return False
    doubled = (2 * one - 9 * (one > 4) for one in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


_FORMS: Final = {
    "email": _EMAIL,
    "us_ssn": _SSN,
    "credit_card": _CARD,  # before telephone numbers, as some cards' digits are grouped like one
    "phone_us": _PHONE,
}
PERSONAL: Final = tuple(_FORMS)
"""The kinds."""


def redact_personal(text: str, kinds: Collection[str] = PERSONAL, key: bytes = b"") -> str:
    """Return the text without personal data of these kinds; with a key, marks have digests."""

    def replaced(found: re.Match[str]) -> str:
        if kind == "credit_card" and not is_card_number(found.group()):
            return found.group()
        return mark(kind, found.group(), key)

    for kind, form in _FORMS.items():
        if kind in kinds and (kind != "email" or "@" in text):
            text = form.sub(replaced, text)
    return text


_KEY_LIKE = re.compile(
    r"(?<![\w/+=-])(?=[A-Za-z_-]*\d)(?=[\d_-]*[A-Za-z])[A-Za-z0-9]{2,8}[_-][A-Za-z0-9]{24,128}(?![\w/+=-])"
)


def without_pii_text(text: str, key: bytes) -> str:
    """Return the text with `[redacted:kind:digest]` in place of personal data."""
    text = redact_personal(text, key=key)
    return _KEY_LIKE.sub(lambda found: mark("api_key_like", found.group(), key), text)


def without_pii(value: Any, key: bytes) -> Any:
    """Return a copy of a JSON value, without personal data in its texts and keys. Numbers are unchanged."""
    if isinstance(value, str):
        return without_pii_text(value, key)
    if isinstance(value, dict):
        return {without_pii_text(name, key): without_pii(item, key) for name, item in value.items()}
    if isinstance(value, list):
        return [without_pii(item, key) for item in value]
    return value
