"""Arguments and results of any type as bounded JSON without secrets, and as digests.

A digest is of the whole value after redaction, so that a short secret cannot be found by trying, and the same call has
the same digest in every session. Calls that differ only in a secret have one digest, even if their marks differ. A
value of more than 64 KiB is digested without redaction, as it is too large to guess. With a key (`digest_key`), digests
are useless to anyone without the key.
"""

from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2b
from pathlib import PurePath
from typing import Any

import orjson
from pydantic import BaseModel

from haltline.interventions.agent.redaction.marks import NO_KEYS, Keys
from haltline.interventions.agent.redaction.pii import PERSONAL, without_pii, without_pii_text
from haltline.interventions.agent.redaction.secrets import may_hold_secrets, redact, redact_text
from haltline.schemas import expressions as re

_REDACT_WHOLE_BYTES = 64 * 1024
_MARGIN_CHARS = 4096  # read beyond the cut, so that a secret across it is complete
_MAX_NODES = 100_000
_MAX_DEPTH = 32
_STEPS = (196_608, 65_536, 16_384, 4096, 1024, 256, 64, 16)
_SECRET_MARK = re.compile(rb"\[redacted:(?!(?:%s|api_key_like):)(\w+):[0-9a-f]{8}\]" % "|".join(PERSONAL).encode())
_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS


@dataclass(slots=True)  # frozen would take a microsecond more, in every call
class Plain:
    """A value ready to leave the process."""

    value: Any
    """JSON without secrets, truncated to the requested size."""
    digest: str
    size_bytes: int
    """Size of the whole value as JSON."""
    opaque: bool
    """True: a part of it cannot be compared, so an equal digest proves nothing."""
    encoded: bytes | None = None
    """The value as bytes, if they are known already."""
    unread_from: int | None = None
    """Its texts and lists are truncated after this number of characters or items; None: it is complete."""


class Whole:
    """A value of any type, including secrets, for use in this process only.

    Several readers search the arguments and the result of a call; shared intermediate values are cached.
    """

    __slots__ = ("_is_clean", "_json", "_json_text", "_opaque", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._json: bytes | None = None
        self._json_text: str | None = None
        self._opaque = False
        self._is_clean: bool | None = None

    def json(self) -> tuple[bytes, bool]:
        """Return the value as JSON, and whether a part of it cannot be compared."""
        if self._json is None:
            self._json, self._opaque = _encode(self.value)
        return self._json, self._opaque

    def json_text(self) -> str:
        """Return the value's JSON as text."""
        if self._json_text is None:
            self._json_text = self.json()[0].decode()
        return self._json_text

    def is_clean(self) -> bool:
        """Return True if the text, or the JSON of another value, certainly contains no secret."""
        if self._is_clean is None:
            self._is_clean = not may_hold_secrets(self.value if isinstance(self.value, str) else self.json_text())
        return self._is_clean


def whole_of(value: Any) -> Whole:
    """Return the value as a Whole; one that is a Whole already is returned itself."""
    return value if isinstance(value, Whole) else Whole(value)


def plain(value: Any, *, max_bytes: int, keys: Keys = NO_KEYS) -> Plain:
    """Return the value as JSON of about `max_bytes` at most, with the digest of the whole. Accepts any value.

    With a key for personal data, this is removed as well.
    """
    given = whole_of(value)
    whole, opaque = given.json()
    most = max(max_bytes, _REDACT_WHOLE_BYTES)
    if keys.pii is None and len(whole) <= max_bytes and _is_flat(whole) and given.is_clean():
        return Plain(orjson.loads(whole), digest(whole, keys.digest), len(whole), opaque, whole)
    if len(whole) > most:
        shown, limit = _cut(orjson.loads(whole), max_bytes, keys)
        return Plain(shown, digest(whole, keys.digest), len(whole), opaque, unread_from=limit)
    clean = redact(orjson.loads(whole), keys.digest)
    if keys.pii is not None:
        clean = without_pii(clean, keys.pii)
    encoded = orjson.dumps(clean, option=orjson.OPT_SORT_KEYS)
    made = _digest_of_clean(encoded, keys.digest)
    if len(encoded) <= max_bytes:
        return Plain(clean, made, len(whole), opaque)
    shown, limit = _cut(clean, max_bytes, keys)
    return Plain(shown, made, len(whole), opaque, unread_from=limit)


def raw_digest(value: Any, key: bytes) -> str | None:
    """Return a digest of a value including secrets, for use in this process only, as is its key.

    None: a part of it cannot be compared.
    """
    whole, opaque = _encode(value)
    return None if opaque else digest(whole, key)


def plain_output(whole: Whole, *, max_chars: int, keys: Keys = NO_KEYS) -> tuple[str, str]:
    """Return the beginning of a text without secrets, and the digest of the whole, like `plain_text` and `plain`."""
    text: str = whole.value
    if keys.pii is None and len(text) <= _REDACT_WHOLE_BYTES:
        try:
            encoded = orjson.dumps(text)
        except TypeError:  # lone surrogates
            encoded = None
        if encoded is not None and len(encoded) <= _REDACT_WHOLE_BYTES:
            if whole.is_clean():
                return _shown(text, max_chars), digest(encoded, keys.digest)
            if len(text) <= max_chars + _MARGIN_CHARS:
                clean = redact_text(text, keys.digest)
                return _shown(clean, max_chars), _digest_of_clean(orjson.dumps(clean), keys.digest)
    return plain_text(text, max_chars=max_chars, keys=keys), plain(text, max_bytes=0, keys=keys).digest


def _is_flat(encoded: bytes) -> bool:
    """Return whether it certainly is not nested deeply enough to be cut."""
    return len(encoded) <= _MAX_DEPTH or encoded.count(b"{") + encoded.count(b"[") <= _MAX_DEPTH


def plain_text(text: str, *, max_chars: int, keys: Keys = NO_KEYS) -> str:
    """Return the beginning of a text, without secrets."""
    clean = redact_text(text[: max_chars + _MARGIN_CHARS], keys.digest)
    if keys.pii is not None:
        clean = without_pii_text(clean, keys.pii)
    return _shown(clean.encode(errors="replace").decode(), max_chars)  # lone surrogates cannot be written


def _shown(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[:max_chars]}[cut]"


def digest(data: bytes, key: bytes = b"") -> str:
    """Return 32 hex digits, equal for equal data."""
    return (blake2b(data, digest_size=16, key=key[:64]) if key else blake2b(data, digest_size=16)).hexdigest()


def _digest_of_clean(encoded: bytes, key: bytes) -> str:
    """Return the digest of redacted JSON."""
    return digest(_SECRET_MARK.sub(rb"[redacted:\1]", encoded) if key else encoded, key)


class _Opaque:
    """Converts values that JSON does not support, and records whether any cannot be compared."""

    def __init__(self) -> None:
        self.seen = False

    def __call__(self, value: Any) -> Any:
        if isinstance(value, BaseModel):
            return value.model_dump(mode="json")
        if isinstance(value, set | frozenset):
            return sorted(value, key=repr)
        if isinstance(value, PurePath | Decimal | complex):
            return str(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return self._of_bytes(bytes(value))
        self.seen = True
        # Not its repr, which may be long, slow or secret, or contain an address.
        return f"<{type(value).__module__}.{type(value).__qualname__}>"

    def _of_bytes(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.seen = True
            return f"<{len(data)} bytes>"


def _encode(value: Any) -> tuple[bytes, bool]:
    try:  # most values are JSON types; `suppress` would take as long as orjson
        return orjson.dumps(value, option=_OPTIONS), False
    except Exception:
        opaque = _Opaque()
    try:
        return orjson.dumps(value, default=opaque, option=_OPTIONS), opaque.seen
    except Exception:  # a model that cannot be dumped, integers beyond 64 bits, lone surrogates, a cycle
        opaque = _Opaque()
        return orjson.dumps(_Walk(opaque).plain(value), option=_OPTIONS), opaque.seen


def _long(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # more digits than Python writes
        return hex(value)


class _Walk:
    """The slow path for values that orjson rejects: converts each value, to a maximum depth."""

    def __init__(self, opaque: _Opaque) -> None:
        self._opaque = opaque
        self._left = _MAX_NODES

    def plain(self, value: Any, depth: int = 0) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _MAX_DEPTH:
            self._opaque.seen = True
            return "[cut]"
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int):
            return value if -(2**63) <= value < 2**63 else _long(value)
        if isinstance(value, str):
            return value.encode(errors="replace").decode()
        if isinstance(value, dict):
            return {str(self.plain(key, depth + 1)): self.plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.plain(item, depth + 1) for item in value]
        try:
            return self.plain(self._opaque(value), depth + 1)
        except Exception:  # the value's own code failed: __repr__, a serializer
            self._opaque.seen = True
            return f"<{type(value).__qualname__}>"


def _cut(value: Any, max_bytes: int, keys: Keys) -> tuple[Any, int]:
    """Return the value with its texts and lists truncated until it fits, and the limit used."""
    for limit in _STEPS:
        if limit <= max_bytes:
            shorter = _shorten(value, limit, keys)
            if len(orjson.dumps(shorter)) > max_bytes:
                continue  # before the rest is redacted, too
            shorter = redact(shorter, keys.digest)
            if keys.pii is not None:
                shorter = without_pii(shorter, keys.pii)
            if len(orjson.dumps(shorter)) <= max_bytes:
                return shorter, limit
    return ({"[cut]": "all"} if isinstance(value, dict) else "[cut]"), 0


def _shorten(value: Any, limit: int, keys: Keys) -> Any:
    if isinstance(value, str):
        return value if len(value) <= limit else plain_text(value, max_chars=limit, keys=keys)
    if isinstance(value, dict):
        kept = {name[:limit]: _shorten(value[name], limit, keys) for name in list(value)[:limit]}
        return kept | ({"[cut]": f"{len(value) - limit} more"} if len(value) > limit else {})
    if isinstance(value, list):
        more = [f"[cut: {len(value) - limit} more]"] if len(value) > limit else []
        return [_shorten(item, limit, keys) for item in value[:limit]] + more
    return value
