"""Seals what a worker says to agents, so that they can tell it from what somebody else wrote on its topics."""

import time
from collections.abc import Sequence
from pathlib import Path

from haltline.schemas.seals import Sealer
from haltline.schemas.topics import Topics
from haltline.streams.runtime.ports import Sender


class SigningProducer:
    """A Sender that signs decisions and entries of the control topic with a private key, and hands all on."""

    def __init__(self, sender: Sender, key: Path, topics: Topics) -> None:
        """Raises BadKey (a ValueError) for a file that is no such key, and OSError when it cannot be read."""
        self._sender = sender
        self._sealer = Sealer(key)
        self._sealed = {topics.interventions, topics.control}

    def send(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> None:
        """Hands one record over."""
        if topic in self._sealed:
            headers = [*headers, self._sealer.seal(topic, key, value, time.time_ns() // 1_000_000)]
        self._sender.send(topic, key=key, value=value, headers=headers)
