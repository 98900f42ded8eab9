"""Certificates for one run: an authority, a broker's certificate by it, and an authority that has signed nothing."""

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID


class Authority:
    """Signs certificates for 127.0.0.1; `file` is what clients are to trust."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = _named(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        builder = self._builder(self._name, self._key.public_key()).add_extension(constraints, critical=True)
        made = builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(made.public_bytes(Encoding.PEM))

    def certify(self, name: str, password: str | None = None) -> Path:
        """A file with a private key, encrypted where there is a password, and a certificate of who is at 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        at = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
        signed = self._builder(_named(name), key.public_key()).add_extension(at, critical=False)
        made = signed.sign(self._key, hashes.SHA256())
        encryption = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        file = self._folder / f"{name}.pem"
        file.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption) + made.public_bytes(Encoding.PEM)
        )
        return file

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(self._name).public_key(key)
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
