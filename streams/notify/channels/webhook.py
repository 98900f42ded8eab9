"""A CloudEvent to a configured address, signed according to Standard Webhooks."""

import base64
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson
from standardwebhooks import Webhook as Signer

from haltline.streams.notify import config
from haltline.streams.notify.channels.base import Secrets
from haltline.streams.notify.channels.http import Http
from haltline.streams.notify.notification_text import Message

_LEAST_BYTES: Final = 24
_MAX_BYTES: Final = 64
"""The allowed sizes of a secret, by Standard Webhooks."""


class Webhook:
    """Signs with every secret of the file, so that the receiver can rotate secrets."""

    def __init__(self, channel: config.Webhook, secrets: Secrets) -> None:
        self._http = Http(secrets.read(channel.url_file), secrets, channel.timeout.total_seconds())
        self._signers = signers_of(channel.secret_file, secrets)

    def send(self, message: Message) -> None:
        """Send a message. Its id is the same on every attempt, so that the receiver can drop duplicates."""
        body = orjson.dumps(message.cloud_event())
        kind = {"content-type": "application/cloudevents+json; charset=utf-8"}
        self._http.post(body, kind | signed(self._signers, message.message_id, body, datetime.now(UTC)))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def signers_of(file: Path, secrets: Secrets) -> Sequence[Signer]:
    """Return a signer for each secret of a file. Raises ValueError, OSError."""
    signers = []
    for secret in secrets.lines(file):
        try:
            length = len(base64.b64decode(secret.removeprefix("whsec_"), validate=True))
        except ValueError:  # its text may contain the secret
            length = 0
        if not _LEAST_BYTES <= length <= _MAX_BYTES:
            raise ValueError(
                f"{file}: expected whsec_ and Base64 of {_LEAST_BYTES} to {_MAX_BYTES} bytes, got something else"
            )
        signers.append(Signer(secret))
    return signers


def signed(signers: Iterable[Signer], message_id: str, body: bytes, now: datetime) -> dict[str, str]:
    """Return the headers of a message that these sign; without a signer, its id and time."""
    signatures = [signer.sign(message_id, now, body.decode()) for signer in signers]
    headers = {"webhook-id": message_id, "webhook-timestamp": str(int(now.timestamp()))}
    return headers | ({"webhook-signature": " ".join(signatures)} if signatures else {})


def senders(channel: config.Webhook, secrets: Secrets) -> tuple[Webhook]:
    """Return the sender of a channel. Raises ValueError, OSError."""
    return (Webhook(channel, secrets),)
