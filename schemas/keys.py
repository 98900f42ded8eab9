"""Ed25519 keys in PEM files. The public key verifies what the private key has signed."""

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)


class BadKey(ValueError):
    """A file that is not the expected key."""


def key_id(key: Ed25519PublicKey) -> str:
    """The first characters of a public key's SHA-256."""
    return sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:16]


def make_keys(private: Path) -> Path:
    """Write a new private key, readable by its owner only, and its public key (`.pub`); return the latter's path.

    Raises:
        FileExistsError: the key exists already.
        OSError: it cannot be written.

    """
    key = Ed25519PrivateKey.generate()
    private.parent.mkdir(parents=True, exist_ok=True)
    private.touch(mode=0o600, exist_ok=False)
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = private.with_name(f"{private.name}.pub")
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return public


def load_private_key(file: Path) -> Ed25519PrivateKey:
    """Load a private key. Raises BadKey, and OSError if the file cannot be read."""
    key = _load(file, "private key (PEM, without a password)", partial(load_pem_private_key, password=None))
    if not isinstance(key, Ed25519PrivateKey):
        raise BadKey(f"{file}: expected an ed25519 private key, got {type(key).__name__}")
    return key


def load_public_key(file: Path) -> Ed25519PublicKey:
    """Load a public key. Raises BadKey, and OSError if the file cannot be read."""
    key = _load(file, "public key (PEM)", load_pem_public_key)
    if not isinstance(key, Ed25519PublicKey):
        raise BadKey(f"{file}: expected an ed25519 public key, got {type(key).__name__}")
    return key


def _load(file: Path, expected: str, load: Callable[[bytes], object]) -> object:
    try:
        return load(file.read_bytes())
    except (ValueError, TypeError) as error:
        raise BadKey(f"{file}: expected an ed25519 {expected}, got none: {error}") from None
