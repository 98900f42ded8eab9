"""Ed25519 keys in PEM files: who has the public one can check what the private one has signed."""

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
    """The beginning of the SHA-256 of a public key."""
    return sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:16]


def make_keys(private: Path) -> Path:
    """Writes a new private key, readable for its owner only, and the public one beside it (`.pub`); returns that.

    Raises:
        FileExistsError: there is a key already.
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
    """A private key's file.

    Raises:
        BadKey: it is none.
        OSError: it cannot be read.

    """
    try:
        key = load_pem_private_key(file.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise BadKey(f"{file}: expected an ed25519 private key (PEM, without a password), got none: {error}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BadKey(f"{file}: expected an ed25519 private key, got {type(key).__name__}")
    return key


def load_public_key(file: Path) -> Ed25519PublicKey:
    """A public key's file.

    Raises:
        BadKey: it is none.
        OSError: it cannot be read.

    """
    try:
        key = load_pem_public_key(file.read_bytes())
    except ValueError as error:
        raise BadKey(f"{file}: expected an ed25519 public key (PEM), got none: {error}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise BadKey(f"{file}: expected an ed25519 public key, got {type(key).__name__}")
    return key
