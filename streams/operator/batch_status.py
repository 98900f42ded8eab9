"""The recently declared batches, with the number of covered actions: from commands and decisions."""

import time
from dataclasses import dataclass

from haltline.interventions.control.declared_batches import LONGEST
from haltline.schemas import wire
from haltline.schemas.control import Batch, Command, CommandKind
from haltline.schemas.decisions import Decision
from haltline.streams.operator.client import Operator


@dataclass(frozen=True, kw_only=True)
class BatchStatus:
    """The status of one batch."""

    command: Command
    """The declaration."""
    batch: Batch
    used: int
    """The number of actions that it has covered."""


class Batches(Operator):
    """The operator's client for declared batches."""

    def declared(self) -> list[BatchStatus]:
        """Return every batch that may still be in force, the latest first."""
        since_ms = time.time_ns() // 1_000_000 - round(LONGEST.total_seconds() * 1000)
        commands: dict[str, tuple[Command, Batch]] = {}
        used: dict[str, int] = {}
        with self._reader(self._topics.commands, self._topics.interventions, since_ms=since_ms) as reader:
            for message in reader.to_end():
                value = message.value() or b""
                try:
                    if message.topic() == self._topics.commands:
                        command = wire.decode(Command, value)
                        if command.kind is CommandKind.BATCH and command.batch is not None:
                            commands[command.command_id] = (command, command.batch)
                    elif b'"batch_used"' in value:
                        values = wire.decode(Decision, value).values
                        batch, count = values.get("batch"), values.get("batch_used")
                        if isinstance(batch, str) and isinstance(count, int):
                            used[batch] = max(used.get(batch, 0), count)
                except wire.InvalidRecord:
                    continue
        found = [
            BatchStatus(command=command, batch=batch, used=used.get(command_id, 0))
            for command_id, (command, batch) in commands.items()
            if batch.expires > since_ms
        ]
        return sorted(found, key=lambda declared: -declared.command.time)
