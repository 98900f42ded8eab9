"""Any other receiver that apprise supports."""

import logging
from collections.abc import Iterator

import apprise

from haltline.schemas.findings import Severity
from haltline.streams.notify import config
from haltline.streams.notify.channels.base import Failed, Secrets
from haltline.streams.notify.notification_text import Message, severity_of

logging.getLogger("apprise").setLevel(logging.CRITICAL)  # lower levels log addresses, which are secrets


class Apprise:
    """One of the file's addresses."""

    def __init__(self, receiver: apprise.Apprise) -> None:
        self._receiver = receiver

    def send(self, message: Message) -> None:
        """Send a message. Apprise reports only whether it was accepted."""
        serious = severity_of(message.record) >= Severity.HIGH
        kind = apprise.NotifyType.FAILURE if serious else apprise.NotifyType.WARNING
        if not self._receiver.notify(title=message.title, body=message.plain() or "-", notify_type=kind):
            raise Failed("expected the receiver to accept it, got a refusal or no answer", again=True)

    def close(self) -> None:
        """Do nothing: each message opens a connection."""


def senders(channel: config.Apprise, secrets: Secrets) -> Iterator[Apprise]:
    """Yield a sender for each address of the file. Raises ValueError, OSError."""
    asset = apprise.AppriseAsset(async_mode=False)  # in the receiver's own thread
    for number, url in enumerate(secrets.lines(channel.urls_file), start=1):
        receiver = apprise.Apprise(asset=asset)
        if not receiver.add(url):
            raise ValueError(f"{channel.urls_file}: line {number}: expected an address for apprise")
        yield Apprise(receiver)
