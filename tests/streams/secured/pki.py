"""Certificates for one run: an authority, a broker's certificate by it, and an authority that has signed nothing."""

from pathlib import Path

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from trustme import CA


class Authority:
    """Signs certificates for 127.0.0.1; `file` is what clients are to trust."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._signs = folder, CA(organization_name=name)
        self.file = folder / f"{name}.pem"
        self._signs.cert_pem.write_to_path(self.file)

    def certify(self, name: str, password: str | None = None) -> Path:
        """A file with a private key, encrypted where there is a password, and a certificate of who is at 127.0.0.1."""
        made = self._signs.issue_cert("127.0.0.1", common_name=name)
        key = load_pem_private_key(made.private_key_pem.bytes(), None)
        encryption = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        file, (certificate,) = self._folder / f"{name}.pem", made.cert_chain_pems
        file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption) + certificate.bytes())
        return file
