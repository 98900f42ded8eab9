"""The channels, one file for each kind of receiver."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from haltline.streams.notify.channels.base import ChannelSender, Secrets
from haltline.streams.notify.config import Actuator, AnyChannel, Config


@dataclass(frozen=True)
class Receiver:
    """One receiver of messages: it has a queue of its own."""

    channel: AnyChannel | Actuator
    sender: ChannelSender


def receivers_of(config: Config) -> Mapping[str, Receiver]:
    """Return the receivers by name: each actuator and channel; of apprise each URL, from the second on as `channel:2`.

    Only the libraries of used kinds are loaded.

    Raises:
        ValueError: a file of a secret cannot be used, or a library is not installed; says which channel.

    """
    found: dict[str, Receiver] = {}
    for name, channel in config.channels.items():
        try:
            module = import_module(f"{__name__}.{channel.kind}")
            for number, sender in enumerate(module.senders(channel, Secrets()), start=1):
                found[name if number == 1 else f"{name}:{number}"] = Receiver(channel, sender)
        except ModuleNotFoundError as missing:
            raise ValueError(
                f"channels.{name}: expected {missing.name} installed, got none: pip install 'haltline[notify]'"
            ) from None
        except (OSError, ValueError) as error:
            raise ValueError(f"channels.{name}: {error}") from None
    for name, actuator in config.actuators.items():
        from haltline.streams.notify.channels.actuator import Actuator as Sender  # noqa: PLC0415 - used kinds only

        try:
            found[name] = Receiver(actuator, Sender(actuator, Secrets()))
        except (OSError, ValueError) as error:
            raise ValueError(f"actuators.{name}: {error}") from None
    return found
