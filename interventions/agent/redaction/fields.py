"""Fields whose other fields show that they are a secret: pairs of a name and a value, input of a browser, a JWK."""

from collections.abc import Mapping
from typing import Any, Final

from haltline.schemas import expressions as re

_PAIRS: Final = (
    ("name", "value"), ("key", "value"), ("Name", "Value"), ("Key", "Value"), ("key", "val"), ("field", "value"),
    ("field", "content"), ("header", "value"), ("ParameterKey", "ParameterValue"), ("parameterKey", "parameterValue"),
    ("parameter", "value"), ("variable", "value"), ("setting", "value"), ("option", "value"),
    ("k", "v"), ("name", "default"),
)  # fmt: skip
"""What names a value, and the value; the first pair that an object has counts."""
_INPUT: Final = ("text", "value", "input", "keys")
_PLACES: Final = ("selector", "element", "label", "placeholder", "locator", "field", "css", "xpath", "aria-label")
_PASSWORDS: Final = re.compile(
    r"passw(?:or)?[dt]|passphrase|passcode|contrase|mot de passe|[#._=-](?:pass|pwd)(?![a-z])"
    r"|api[ _-]?key|secret|access[ _-]?token",
    re.IGNORECASE | re.ASCII,
)
_CODES: Final = re.compile(
    r"(?<![a-z])(?:pin|otp|totp|cvv2?|cvc|2fa|mfa|ssn)(?![a-z])"
    r"|(?:verification|security|one-time|authentication|sms)[ _-]?code|one-time"
    r"|card[ _-]?(?:number|no\b)",
    re.IGNORECASE | re.ASCII,
)
_DIGITS: Final = re.compile(r"[0-9]{3}")
_JWK: Final = ("d", "p", "q", "dp", "dq", "qi", "k")
_ANY: Final = frozenset(("kty", *_INPUT, *(field for _, field in _PAIRS)))

MAY_BE_FIELDS: Final = (
    r"\"(?:selector|element|label|placeholder|locator|field|css|xpath|aria-label|[Nn]ame|[Kk]ey)\":\"[^\"]*(?i:pass|pwd|pin|otp|cv[vc]|2fa|mfa|ssn|code|one-time"
    r"|contrase|card)|\"kty\""
)
"""For Rust; without a match in an object's JSON, and without a name of a secret in it, no field is one."""


def names_of_fields(value: Mapping[str, Any]) -> dict[str, str]:
    """Return, for fields whose own name does not show what they are, another name that does."""
    if _ANY.isdisjoint(value):
        return {}
    if "kty" in value:
        return dict.fromkeys(_JWK, "private_key")
    for name, field in _PAIRS:
        if field in value and isinstance(named := value.get(name), str):
            return {field: "password" if _is_code(named, value[field]) else named}
    places = [text for name in _PLACES if isinstance(text := value.get(name), str)]
    is_password = any(map(_PASSWORDS.search, places))
    return {
        name: "password"
        for name in _INPUT
        if name in value and (is_password or any(_is_code(text, value[name]) for text in places))
    }


def _is_code(place: str, item: object) -> bool:
    """Return whether an input of this description is a code of digits."""
    return _CODES.search(place) is not None and _DIGITS.search(str(item)) is not None
