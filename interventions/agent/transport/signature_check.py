"""Verification of the worker's records against those of other writers on its topics (`verify_key`).

A decision without a seal is ignored. A control entry without a seal counts as frozen if its key has no entry yet, like
an unreadable one: a writer to the topic can stop an agent this way, but never release it. An entry or a release with a
seal older than the last one under its key is a replay, and is ignored.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from confluent_kafka import Message

from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.transport.kafka_records import frozen
from haltline.schemas.decisions import Decision, Mode

if TYPE_CHECKING:
    from haltline.schemas.seals import Seals

log: Final = logging.getLogger("haltline.agent")

CLOCKS_DIFFER_MS: Final = 60_000
"""The maximum difference of two workers' clocks."""


class Sealed:
    """Verifies the records of one connection, in their order."""

    def __init__(self, seals: "Seals") -> None:
        self._seals = seals
        self._sealed_at: dict[str, int] = {}  # of the entries in force
        self.refused = 0
        """Records that were rejected."""

    def holds(self, message: Message) -> bool:
        """Return whether a decision is from an authorized worker."""
        return self._at(message, may_be_unsealed=_decides_nothing) is not None

    def entry(self, key: str, message: Message, current: bytes | None) -> bytes | None:
        """Return the entry in force under the key from now on; None: no entry."""
        at_ms, value = self._at(message), message.value()
        if at_ms is None:
            entry = frozen(key, "control_entry_not_sealed", "somebody else than a worker wrote it")
            return current if current is not None or value is None or entry is None else entry.to_json()
        last_ms = self._sealed_at.get(key, at_ms)
        if at_ms < last_ms - CLOCKS_DIFFER_MS:
            self._refuse(message, "it was sealed before what stands under its key")
            return current
        if value is None:
            self._sealed_at.pop(key, None)
        else:
            self._sealed_at[key] = max(at_ms, last_ms)
        return value

    def _at(self, message: Message, may_be_unsealed: Callable[[Message], bool] = lambda _: False) -> int | None:
        try:
            headers = cast("list[tuple[str, bytes | None]] | None", message.headers())
            return self._seals.check(str(message.topic()), message.key(), message.value(), headers)
        except ValueError as not_sealed:
            if not may_be_unsealed(message):
                self._refuse(message, str(not_sealed))
            return None

    def _refuse(self, message: Message, why: str) -> None:
        self.refused += 1
        if str(self.refused).strip("0") == "1":  # the first, the tenth, the hundredth: an attacker must not fill a disk
            log.error(
                "haltline: %s, partition %s, offset %s is not of a worker: %s (%d such records so far)",
                message.topic(), message.partition(), message.offset(), why, self.refused,
            )  # fmt: skip


def _decides_nothing(message: Message) -> bool:
    """Return whether it is of a rule in shadow mode, whose workers need no key: it is ignored, and no forgery."""
    try:
        return Decision.model_validate_json(message.value() or b"").mode is Mode.SHADOW
    except ValueError:
        return False


def sealed_of(settings: GuardSettings) -> Sealed | None:
    """Return the check with the keys of the settings; None without keys. Raises ValueError for invalid keys."""
    if settings.verify_key is None:
        return None
    try:
        from haltline.schemas.seals import Seals  # noqa: PLC0415  # cryptography is of an extra
    except ModuleNotFoundError as missing:
        raise ValueError("verify_key: expected cryptography installed: pip install 'haltline[sealed]'") from missing
    try:
        return Sealed(Seals.of_files(Path(file) for file in settings.verify_key.split(os.pathsep)))
    except OSError as unreadable:
        raise ValueError(f"verify_key: expected files of public keys: {unreadable}") from unreadable
