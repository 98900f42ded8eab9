"""Signatures of records on topics, in a header: they distinguish a worker's records from all others.

A seal is the JSON `{"key_id", "at", "signature"}` in the header `haltline-seal`: ed25519 over the topic, the key, the
value and `at`, the time of the signing in epoch milliseconds. A record without a value (a deleted entry) is signed as
well, and differs from one with an empty value. A copy on another topic or under another key is no longer sealed.
Readers detect replayed old records by `at`.
"""

import base64
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from haltline.schemas.keys import key_id, load_private_key, load_public_key

HEADER: Final = "haltline-seal"

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

_PURPOSE: Final = b"haltline record 1"
_ABSENT: Final = 2**32 - 1
_AT = struct.Struct(">q")
_LENGTH = struct.Struct(">I")


class Sealer:
    """Signs with a private key."""

    def __init__(self, file: Path) -> None:
        """Raises BadKey (a ValueError) if the file is not a private key, and OSError if it cannot be read."""
        self._key = load_private_key(file)
        self._key_id = key_id(self._key.public_key())

    def seal(self, topic: str, key: bytes | None, value: bytes | None, at_ms: int) -> tuple[str, bytes]:
        """The header of a record."""
        signature = base64.b64encode(self._key.sign(_signed(topic, key, value, at_ms))).decode()
        return HEADER, orjson.dumps({"key_id": self._key_id, "at": at_ms, "signature": signature})


class NotSealed(ValueError):
    """None of the keys has signed the record as it is."""


class Seals:
    """Verifies with public keys: several, during a key rotation."""

    def __init__(self, keys: Mapping[str, Ed25519PublicKey]) -> None:
        self._keys = dict(keys)

    @classmethod
    def of_files(cls, files: Iterable[Path]) -> "Seals":
        """Raises BadKey (a ValueError) if a file is not a public key, and OSError if one cannot be read."""
        keys = [load_public_key(file) for file in files]
        return cls({key_id(key): key for key in keys})

    def check(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
        """Return when the record was signed, in epoch milliseconds. Raises NotSealed."""
        found = [header for name, header in headers or () if name == HEADER]
        if len(found) != 1 or found[0] is None:
            raise NotSealed(f"expected one header {HEADER}, got {len(found)}")
        try:
            seal = orjson.loads(found[0])
            by, at_ms, signature = str(seal["key_id"]), seal["at"], base64.b64decode(seal["signature"], validate=True)
            signed = _signed(topic, key, value, at_ms)
        except (KeyError, TypeError, ValueError, struct.error) as bad:
            raise NotSealed(f"expected key_id, at and signature, got {found[0]!r:.200}: {bad!r:.100}") from None
        if by not in self._keys:
            raise NotSealed(f"expected a seal of key {', '.join(self._keys)}, got one of {by!r:.40}")
        try:
            self._keys[by].verify(signature, signed)
        except InvalidSignature:
            raise NotSealed("expected the record as it was signed, got another") from None
        return int(at_ms)


def _signed(topic: str, key: bytes | None, value: bytes | None, at_ms: int) -> bytes:
    parts = [_PURPOSE, _AT.pack(at_ms)]
    for part in (topic.encode(), key, value):
        parts += [_LENGTH.pack(_ABSENT)] if part is None else [_LENGTH.pack(len(part)), part]
    return b"".join(parts)
