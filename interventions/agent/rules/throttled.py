"""Limits of THROTTLE decisions, in force until they end. Pure.

Of the policy's names, these are enforced here: `max_file_operations` (further calls that write or worse), `max_tokens`
(further tokens, as reported by model turns) and `max_memory_mb` (the last reported value). `batch_size` and
`max_execution_time_s` are for the agent, which reads them in `Guard.limits`. `min_interval_s` slows a poll: the same
call is delayed until so many seconds have passed since the last one.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from haltline.interventions.author_rules.objection import THROTTLED, Objection
from haltline.schemas.events import Effect, Usage

MIB: Final = 1024 * 1024
FILE_OPERATIONS, TOKENS, MEMORY = "max_file_operations", "max_tokens", "max_memory_mb"
MIN_INTERVAL = "min_interval_s"
_MAX_OF_A_NAME: Final = 16
_MAX_CALLS: Final = 8


class _Limit(NamedTuple):
    """One limit of one decision."""

    value: float
    since: float
    """The use when it was set: only later use counts."""
    until_ms: int


class Throttled:
    """The limits in force and their use. Not thread safe."""

    def __init__(self, hold_s: float) -> None:
        self._hold_ms = round(hold_s * 1000)
        self.ever = False
        """Limits have been set at least once."""
        self._limits: dict[str, list[_Limit]] = {}
        self._file_operations = 0
        self._tokens = 0
        self._memory_bytes = 0
        self._calls: dict[str, tuple[str, object]] = {}
        """By call id: tool and arguments of the last calls, to recognize the poll that a decision slows."""
        self.slowed: tuple[tuple[str, object], int, int] | None = None
        """Tool and arguments of the slowed poll, the interval in milliseconds, and until when it holds."""
        self._last_ms = 0
        """When that poll was last made."""

    def made(self, call_id: str, action: str, args: object, now_ms: int) -> None:
        """Remember a call that runs."""
        call = (action, args)
        self._calls[call_id] = call
        if len(self._calls) > _MAX_CALLS:
            del self._calls[next(iter(self._calls))]
        if self.slowed is not None and self.slowed[0] == call:
            self._last_ms = now_ms

    def slow(self, call_id: str | None, interval_s: float, now_ms: int, until_ms: int | None = None) -> None:
        """Slow the repetitions of one of the last calls; a later decision replaces an earlier one."""
        call = self._calls.get(call_id or "")
        if call is not None:
            self.slowed = (call, round(interval_s * 1000), until_ms or now_ms + self._hold_ms)
            self._last_ms = self._last_ms or now_ms

    def pause_s(self, action: str, args: object, now_ms: int) -> float:
        """Return the seconds to wait before such a call."""
        if self.slowed is None:
            return 0.0
        call, interval_ms, until_ms = self.slowed
        if call != (action, args) or now_ms >= until_ms:
            return 0.0
        return max(0, min(interval_ms, self._last_ms + interval_ms - now_ms)) / 1000

    def take(self, limits: Mapping[str, float], now_ms: int, until_ms: int | None = None) -> None:
        """Add limits beside the earlier ones, each with its own end and count: none relaxes another."""
        if not limits:
            return
        self.ever = True
        used = {FILE_OPERATIONS: self._file_operations, TOKENS: self._tokens}
        for name, value in limits.items():
            hold = self._holding(name, now_ms)
            hold.append(_Limit(value, used.get(name, 0), until_ms or now_ms + self._hold_ms))
            if len(hold) > _MAX_OF_A_NAME:  # the two oldest become one that is as strict as both
                one, other, *rest = hold
                least = min(one.value, other.value)
                since = min(one.since + one.value, other.since + other.value) - least
                hold = [_Limit(least, since, max(one.until_ms, other.until_ms)), *rest]
            self._limits[name] = hold

    def limits(self, now_ms: int) -> dict[str, float]:
        """Return the lowest limit of each name; empty when all have ended."""
        holding = {name: self._holding(name, now_ms) for name in self._limits}
        return {name: min(limit.value for limit in hold) for name, hold in holding.items() if hold}

    def note(self, effect: Effect) -> None:
        """Count a call that runs."""
        self._file_operations += effect >= Effect.WRITE

    def used(self, usage: Usage) -> None:
        """Count the usage of a step."""
        self._tokens += usage.tokens
        self._file_operations += usage.file_ops
        self._memory_bytes = usage.memory_bytes or self._memory_bytes

    def against(self, effect: Effect, now_ms: int) -> Objection | None:
        """Return why such a call exceeds the limits, if so; read-only calls never do."""
        if not self._limits or effect < Effect.WRITE:
            return None
        # The call would be one more file operation; tokens and memory are known only after their use.
        used = {
            FILE_OPERATIONS: self._file_operations + 1,
            TOKENS: self._tokens,
            MEMORY: self._memory_bytes / MIB,
        }
        for name, value in used.items():
            beyond = [limit for limit in self._holding(name, now_ms) if value - limit.since > limit.value]
            if beyond:
                last = max(beyond, key=lambda limit: limit.until_ms)
                return Objection(
                    THROTTLED,
                    f"{name}: {value - last.since:.6g} since it was throttled",
                    values={name: value - last.since},
                    thresholds={name: last.value},
                    retry_after_s=max(1, -((now_ms - last.until_ms) // 1000)),
                )
        return None

    def _holding(self, name: str, now_ms: int) -> list[_Limit]:
        return [limit for limit in self._limits.get(name, ()) if now_ms < limit.until_ms]
