"""Signed statements about the audit: ed25519, on their canonical JSON. The public key suffices to check them."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from haltline.schemas.keys import key_id, load_private_key
from haltline.streams.audit.chain import canonical

_SIGNATURE = "signature"


class Signer:
    """Signs with a private key."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.key_id = key_id(key.public_key())

    def signed(self, statement: Mapping[str, Any]) -> dict[str, Any]:
        """Return the statement with the key's id and the signature of the rest."""
        content = {**statement, "key_id": self.key_id}
        return {**content, _SIGNATURE: base64.b64encode(self._key.sign(canonical(content))).decode()}


def is_genuine(statement: Mapping[str, Any], key: Ed25519PublicKey) -> bool:
    """Return whether the statement is unchanged since it was signed with the key."""
    content = {name: value for name, value in statement.items() if name != _SIGNATURE}
    try:
        key.verify(base64.b64decode(str(statement.get(_SIGNATURE, "")), validate=True), canonical(content))
    except (InvalidSignature, ValueError):
        return False
    return True


def load_signer(file: Path) -> Signer:
    """Return the signer of a private key's file.

    Raises:
        BadKey: it is not a private key.
        OSError: it cannot be read.

    """
    return Signer(load_private_key(file))
