"""Limits that a THROTTLE decision sets, from then on until they end. Pure.

Of the names that the policy knows, these can be kept here: `max_file_operations` (so many further calls that write or
worse), `max_tokens` (so many further tokens, as turns of the model report them) and `max_memory_mb` (the last level
that was reported).
`batch_size` and `max_execution_time_s` are about how the agent works: it reads them in `Guard.limits`.
"""

from collections.abc import Mapping
from typing import Final

from haltline.interventions.agent.rules.objection import THROTTLED, Objection
from haltline.schemas.events import Effect, Usage

MIB: Final = 1024 * 1024
FILE_OPERATIONS, TOKENS, MEMORY = "max_file_operations", "max_tokens", "max_memory_mb"


class Throttled:
    """What holds now, and what was used of it. Not thread safe."""

    def __init__(self, hold_s: float) -> None:
        self._hold_ms = round(hold_s * 1000)
        self.ever = False
        """Some limits were set."""
        self._limits: dict[str, float] = {}
        self._until_ms = 0
        self._file_operations = 0
        self._tokens = 0
        self._memory_bytes = 0

    def take(self, limits: Mapping[str, float], now_ms: int, until_ms: int | None = None) -> None:
        """New limits hold beside the ones before: the lower of both. What was used since begins anew."""
        if not limits:
            return
        self.ever = True
        before = self.limits(now_ms)
        self._limits = {**before, **{n: min(v, before.get(n, v)) for n, v in limits.items()}}
        self._until_ms = until_ms or now_ms + self._hold_ms
        self._file_operations = self._tokens = 0

    def limits(self, now_ms: int) -> dict[str, float]:
        """By name; empty when they have ended."""
        return dict(self._limits) if now_ms < self._until_ms else {}

    def note(self, effect: Effect) -> None:
        """A call runs."""
        if not self.ever:
            return
        self._file_operations += effect >= Effect.WRITE

    def used(self, usage: Usage) -> None:
        """A step has used this."""
        self._tokens += usage.tokens
        self._file_operations += usage.file_ops
        self._memory_bytes = usage.memory_bytes or self._memory_bytes

    def against(self, effect: Effect, now_ms: int) -> Objection | None:
        """Why such a call goes beyond the limits; what only looks is never held back."""
        limits = self.limits(now_ms)
        if not limits or effect < Effect.WRITE:
            return None
        # Another file operation would be one more; of tokens and memory it is known only after what was used.
        used = {
            FILE_OPERATIONS: self._file_operations + 1,
            TOKENS: self._tokens,
            MEMORY: self._memory_bytes / MIB,
        }
        for name, value in used.items():
            if name in limits and value > limits[name]:
                return Objection(
                    THROTTLED,
                    f"{name}: {value:.6g} since it was throttled",
                    values={name: value},
                    thresholds={name: limits[name]},
                    retry_after_s=max(1, -((now_ms - self._until_ms) // 1000)),
                )
        return None
