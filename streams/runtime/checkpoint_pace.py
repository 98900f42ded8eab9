"""How long a worker waits before its next checkpoint.

A state is encoded whole, however little of it has changed. With many sessions that is most of the work, and waiting
lets more events share it; after a crash, more of them are read again.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

_WORK_TO_CHECKPOINT: Final = 9
"""So many times as long as a checkpoint kept events waiting, they then go on without one."""
_AT_MOST_S: Final = 10.0


class CheckpointPace:
    """The checkpoint interval, stretched while checkpoints take long and events arrive.

    Not while an operator waits: a command is answered when it is committed. `positions` shows whether events arrive.
    """

    def __init__(
        self,
        interval_s: float,
        positions: Callable[[], Mapping[Any, Any]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval_s = interval_s
        self._positions = positions
        self._clock = clock
        self._wait_s = 0.0
        self._commands = 0

    def add_commands(self, count: int) -> None:
        """So many commands of operators were processed."""
        self._commands += count

    def took(self, busy_s: float) -> None:
        """The last checkpoint kept events waiting for so long."""
        self._wait_s = min(busy_s * _WORK_TO_CHECKPOINT, _AT_MOST_S)

    async def next(self) -> None:
        """Returns when the next checkpoint is due."""
        until = self._clock() + self._wait_s
        while True:
            before = self._positions()
            await asyncio.sleep(self._interval_s)
            commands, self._commands = self._commands, 0
            if commands or self._clock() >= until or self._positions() == before:
                return
