"""The time that a worker waits before its next checkpoint.

A changed state is encoded as a whole. With many sessions that is most of the work, and a longer wait shares it among
more events; after a crash, more of them are read again.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

_WORK_TO_CHECKPOINT: Final = 9
"""The wait after a checkpoint, in multiples of the time for which it delayed events."""
_AT_MOST_S: Final = 10.0


class CheckpointPace:
    """The checkpoint interval, stretched while checkpoints take long and events arrive.

    It is not stretched while an operator waits: a command is answered when it is committed. `positions` shows whether
    events arrive.
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
        """Add to the number of processed operator commands."""
        self._commands += count

    def took(self, busy_s: float) -> None:
        """Set how long the last checkpoint delayed events, in seconds."""
        self._wait_s = min(busy_s * _WORK_TO_CHECKPOINT, _AT_MOST_S)

    async def next(self) -> None:
        """Wait until the next checkpoint is due."""
        until = self._clock() + self._wait_s
        while True:
            before = self._positions()
            await asyncio.sleep(self._interval_s)
            commands, self._commands = self._commands, 0
            if commands or self._clock() >= until or self._positions() == before:
                return
