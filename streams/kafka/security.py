"""The security settings of all clients in librdkafka's form, and their translation for Faust's client."""

import ssl
from collections.abc import Mapping
from typing import Final

from faust import SASLCredentials, SSLCredentials
from faust.types.auth import CredentialsT

from haltline.streams.kafka.client_settings import ClientSetting

_KNOWN: Final = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
    }
)
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def faust_credentials(client: Mapping[str, ClientSetting]) -> CredentialsT | None:
    """Return credentials for Faust from librdkafka's settings; None for plain text.

    Raises ValueError for a security setting that cannot be translated: a worker must not join with fewer settings than
    it was given.
    """
    options = {name: str(value) for name, value in client.items() if name.startswith(("security.", "sasl.", "ssl."))}
    if unknown := options.keys() - _KNOWN:
        raise ValueError(f"client: expected settings of {sorted(_KNOWN)}, got {sorted(unknown)} too")
    protocol = options.get("security.protocol", "plaintext").lower()
    match protocol:
        case "plaintext":
            return None
        case "ssl":
            return SSLCredentials(_context(options))
        case "sasl_plaintext" | "sasl_ssl":
            mechanism = options.get("sasl.mechanism", options.get("sasl.mechanisms", "GSSAPI"))
            if mechanism not in _MECHANISMS:
                raise ValueError(f"client: sasl.mechanism: expected one of {_MECHANISMS}, got {mechanism}")
            return SASLCredentials(
                username=options.get("sasl.username"),
                password=options.get("sasl.password"),
                mechanism=mechanism,
                ssl_context=_context(options) if protocol == "sasl_ssl" else None,
            )
        case _:
            raise ValueError(
                f"client: security.protocol: expected plaintext, ssl, sasl_plaintext or sasl_ssl, got {protocol}"
            )


def _context(options: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=options.get("ssl.ca.location"))
    certificate = options.get("ssl.certificate.location")
    if certificate is not None:
        context.load_cert_chain(certificate, options.get("ssl.key.location"), options.get("ssl.key.password"))
    return context
