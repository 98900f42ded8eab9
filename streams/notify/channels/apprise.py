"""Any other receiver that apprise supports."""

import logging

import apprise

from haltline.schemas.findings import Severity
from haltline.streams.notify import config
from haltline.streams.notify.channels.base import Failed, Secrets
from haltline.streams.notify.notification_text import Message, severity_of

logging.getLogger("apprise").setLevel(logging.CRITICAL)  # lower levels log addresses, which are secrets


class Apprise:
    """All of the file's addresses as one channel."""

    def __init__(self, channel: config.Apprise, secrets: Secrets) -> None:
        asset = apprise.AppriseAsset(async_mode=False)  # sequentially, in the channel's own thread
        self._apprise = apprise.Apprise(asset=asset)
        for number, url in enumerate(secrets.lines(channel.urls_file), start=1):
            if not self._apprise.add(url):
                raise ValueError(f"{channel.urls_file}: line {number}: expected an address for apprise")

    def send(self, message: Message) -> None:
        """Send a message. Apprise reports only whether all addresses accepted it."""
        worst = max(severity_of(change.record) for change in message.changes)
        kind = apprise.NotifyType.FAILURE if worst >= Severity.HIGH else apprise.NotifyType.WARNING
        if not self._apprise.notify(title=message.title, body=message.plain() or "-", notify_type=kind):
            raise Failed("expected every receiver to accept it, got a refusal or no answer", again=True)

    def close(self) -> None:
        """Do nothing: each message opens a connection."""
