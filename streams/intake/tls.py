"""TLS of the intake's port, with the setting names of Kafka's clients.

A file of `name=value` lines: `ssl.certificate.location`, `ssl.key.location`, `ssl.key.password`; with
`ssl.ca.location`, only clients with a certificate of that authority are admitted.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CERTIFICATE: Final = "ssl.certificate.location"
KEY: Final = "ssl.key.location"
PASSWORD: Final = "ssl.key.password"
AUTHORITY: Final = "ssl.ca.location"
PROTOCOL: Final = "security.protocol"
_KNOWN: Final = (PROTOCOL, CERTIFICATE, KEY, PASSWORD, AUTHORITY)
HANDSHAKE_WITHIN_S: Final = 10.0
"""The time limit from a connection's start to the end of its handshake."""


@dataclass(frozen=True)
class ServerTls:
    """The files of a server's certificate, and of its clients' certificate authority."""

    certificate: Path
    key: Path
    password: str | None = None
    authority: Path | None = None
    """None: clients need no certificate."""

    @classmethod
    def of(cls, settings: Mapping[str, str], source: object) -> "ServerTls":
        """Return the TLS of settings that were read from `source`. Raises ValueError for unknown or missing ones."""
        if unknown := sorted(settings.keys() - set(_KNOWN)):
            raise ValueError(f"{source}: expected settings of {', '.join(_KNOWN)}, got {', '.join(unknown)} too")
        if (protocol := settings.get(PROTOCOL, "ssl")).lower() != "ssl":
            raise ValueError(f"{source}: {PROTOCOL}: expected ssl, got {protocol!r:.40}")
        if CERTIFICATE not in settings:
            raise ValueError(f"{source}: {CERTIFICATE}: expected the file of the server's certificate, got none")
        certificate, authority = settings[CERTIFICATE], settings.get(AUTHORITY)
        key = Path(settings.get(KEY, certificate))
        made = cls(Path(certificate), key, settings.get(PASSWORD), None if authority is None else Path(authority))
        made.context()  # unusable files are refused at the start
        return made

    def context(self) -> ssl.SSLContext:
        """Return the context of an asyncio server. Raises ValueError for inconsistent files, and OSError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # Without a password, an encrypted key is refused; OpenSSL would ask at the terminal.
            context.load_cert_chain(self.certificate, self.key, self.password or "")
        except ssl.SSLError as error:
            raise ValueError(
                f"{self.key}: expected the private key of {self.certificate}, and {PASSWORD} if it has one, got {error}"
            ) from None
        if self.authority is not None:
            try:
                context.load_verify_locations(self.authority)
            except ssl.SSLError as error:
                raise ValueError(f"{self.authority}: expected certificates in PEM, got {error}") from None
            context.verify_mode = ssl.CERT_REQUIRED
        return context
