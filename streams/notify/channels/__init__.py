"""The channels, one file for each kind of receiver."""

from importlib import import_module
from typing import Final, cast

from haltline.streams.notify.channels.base import Secrets, Sender
from haltline.streams.notify.config import AnyChannel

_CLASSES: Final = {
    "webhook": "Webhook",
    "slack": "Slack",
    "teams": "Teams",
    "pagerduty": "PagerDuty",
    "email": "Email",
    "alertmanager": "Alertmanager",
    "apprise": "Apprise",
}


def sender_of(name: str, channel: AnyChannel) -> Sender:
    """Return the Sender of a channel. Only the libraries of used kinds are loaded.

    Raises:
        ValueError: a file of a secret cannot be used, or a library is not installed; says which channel.

    """
    try:
        module = import_module(f"{__name__}.{channel.kind}")
        return cast("Sender", getattr(module, _CLASSES[channel.kind])(channel, Secrets()))
    except ModuleNotFoundError as missing:
        raise ValueError(
            f"channels.{name}: expected {missing.name} installed, got none: pip install 'haltline[notify]'"
        ) from None
    except (OSError, ValueError) as error:
        raise ValueError(f"channels.{name}: {error}") from None
