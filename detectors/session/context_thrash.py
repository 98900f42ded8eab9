"""The model's context is condensed again and again, and fills up again at once; or one step cannot fit into it.

Fires: `context_thrash` when the context fell `medium`, `high` or `critical` times within the last `last_turns` turns.
    It falls when a turn reads at most `falls_to` of what the turn before it read, after it had only grown, for two
    turns or more, to at least `min_tokens` and to about what it was at the fall before.
    `oversized_step` when the output of one call is larger than `max_output_bytes`, more than a context holds; or when a
    turn of the model wrote more than `max_turn_tokens` and the next one follows without a call. The first is a hint
    to narrow the call or to cap its output (medium); another one within `last_turns` actions is high. It is never
    critical: such a step does no harm that a stop would prevent.
Quiet: a session that is condensed now and then; large outputs that a context still holds, such as a file of 100 KB; a
    small call in between, after which the context is what it was; contexts of parts of the work that have nothing
    to do with each other; turns that read more or less each time.
Misses: sessions whose turns tell no usage; outputs whose size nobody tells, and those that the harness cut before; a
    context that is full again one turn after it was condensed.
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import pydantic
from pydantic import Field, model_validator

from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import SETTINGS, Detector
from haltline.detectors.framework.severity_counts import require_ascending, severity_of
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import INDEX, Entry, entry, evidence, seconds
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding, Severity

_TURN, _FROM, _TO = range(4, 7)
"""Where an entry has the number of the turn, and the tokens before and after the fall."""

# Looked up at every event: from its class, a member takes ten times as long.
_MODEL_TURN = Kind.MODEL_TURN

_MAX_FALLS = 64
_MAX_OVERSIZED = 8
_MIN_RISES = 2
_AS_BEFORE = 0.9
"""A context that is so close to what it was before a fall, one turn later, did not fall."""
_ALIKE = 0.8
"""At the next fall a context is at least so full as at the one before, if it is a limit that it comes up against."""
_WOBBLE = 0.98
"""Growth may go back by this."""

_Count = Annotated[int, Field(ge=2, le=_MAX_FALLS), Stricter.LOWER]


@dataclass
class State:
    """The last turn's context, and the falls before it."""

    turns: int = 0
    tokens: int = 0
    rises: int = 0
    """In a row."""
    falling: Entry | None = None
    """A fall of which it is not known yet whether the context is what it was in the next turn."""
    falls: list[Entry] = field(default_factory=list)
    oversized: list[Entry] = field(default_factory=list)
    """The last steps that no context holds."""
    wrote: int = 0
    """Tokens that the last turn of the model wrote, when these were too many."""
    acts: int = 0
    """Attempts before it."""


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=SETTINGS)
class ContextThrash(Detector[State]):
    """So many falls of the context within so many turns, or a step that is too large for it."""

    id: ClassVar[str] = "context_thrash"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.MODEL_TURN, Kind.COMPLETED})
    sees: ClassVar[Trait] = Trait.USAGE | Trait.RESULT

    medium: _Count = 3
    """From how many on the finding is medium."""
    high: _Count = 5
    """From how many on it is high."""
    critical: _Count = 7
    """From how many on it is critical."""
    last_turns: Annotated[int, Field(ge=4, le=10_000), Stricter.HIGHER] = 30
    """Model turns. Falls within so many of the last ones count together."""
    falls_to: Annotated[float, Field(gt=0, lt=1), Stricter.HIGHER] = 0.6
    """Part of the tokens of the turn before; a turn that reads no more than it is a fall."""
    min_tokens: Annotated[int, Field(ge=1, le=2**53), Stricter.LOWER] = 20_000
    """Tokens. A context that was smaller than this before is not full."""
    max_output_bytes: Annotated[int, Field(ge=1, le=2**53), Stricter.LOWER] = 1_000_000
    """Bytes. A larger output of one call fits into no context."""
    max_turn_tokens: Annotated[int, Field(ge=1, le=2**53), Stricter.LOWER] = 32_000
    """Tokens. A turn of the model that writes more does not come to an end."""

    @model_validator(mode="after")
    def _ordered(self) -> "ContextThrash":
        require_ascending(self.medium, self.high, self.critical)
        return self

    def start(self) -> State:
        """Nothing read yet."""
        return State()

    def concerns(self, act: Observation) -> bool:
        """What tells how much the model read, and a step that is too large."""
        usage = act.usage
        if usage is not None and (act.kind is _MODEL_TURN or usage.input_tokens + usage.cache_read_tokens > 0):
            return True
        size = act.event.output_bytes if act.is_result else None
        return size is not None and size > self.max_output_bytes

    def observe(self, state: State, act: Observation) -> Finding | None:
        """Compares what the model read with the turn before, and what a step brings with what a context holds."""
        fallen = self._read(state, act)
        return self._oversized(state, act) or fallen

    def _oversized(self, state: State, act: Observation) -> Finding | None:
        what, size = "bytes of output of one call", 0
        if act.kind is _MODEL_TURN and act.usage is not None:
            if state.wrote and act.index == state.acts:
                what, size = "tokens written in one turn without a call", state.wrote
            wrote = act.usage.output_tokens
            state.wrote, state.acts = (wrote if wrote > self.max_turn_tokens else 0), act.index
        elif act.is_result and (act.event.output_bytes or 0) > self.max_output_bytes:
            size = act.event.output_bytes or 0
        if not size:
            return None
        near = [e for e in state.oversized if act.index - int(e[INDEX]) < self.last_turns]
        state.oversized = [*near, entry(act)][-_MAX_OVERSIZED:]
        return self.finding(
            "oversized_step",
            Severity.HIGH if near else Severity.MEDIUM,
            f"{size} {what}: {act.subject:.120}" if act.is_result else f"{size} {what}",
            evidence(act, state.oversized),
            confidence=0.9,
            values={"size": size, "steps": len(state.oversized)},
            thresholds={"max_output_bytes": self.max_output_bytes, "max_turn_tokens": self.max_turn_tokens},
        )

    def _read(self, state: State, act: Observation) -> Finding | None:
        usage = act.usage
        tokens, last = (0 if usage is None else usage.input_tokens + usage.cache_read_tokens), state.tokens
        if tokens <= 0:
            return None
        state.turns += 1
        falling, state.falling = state.falling, None
        state.tokens = tokens
        if falling is not None and tokens >= _AS_BEFORE * int(falling[_FROM]):
            return None  # only a small call in between
        if tokens <= self.falls_to * last and last >= self.min_tokens and state.rises >= _MIN_RISES:
            state.falling = entry(act, state.turns, last, tokens)
            return None
        if tokens < _WOBBLE * last:
            state.rises, state.falls = 0, []  # up and down without a pattern
            return None
        if falling is not None:
            state.rises = int(tokens > last)
            return self._fell(state, act, falling)
        state.rises += tokens > last
        if state.falls and last < self.falls_to * tokens and tokens >= _AS_BEFORE * int(state.falls[-1][_FROM]):
            del state.falls[-1]  # part of the work had a context of its own, and is done
        return None

    def _fell(self, state: State, act: Observation, fall: Entry) -> Finding | None:
        """Counts a fall, now that the context is smaller indeed."""
        if state.falls:
            before, now = int(state.falls[-1][_FROM]), int(fall[_FROM])
            if min(before, now) < _ALIKE * max(before, now):
                state.falls = []  # not the same limit
        state.falls.append(fall)
        state.falls = [f for f in state.falls[-_MAX_FALLS:] if state.turns - int(f[_TURN]) < self.last_turns]
        count = len(state.falls)
        severity = severity_of(count, (self.medium, self.high, self.critical))
        if severity is None:
            return None
        return self.finding(
            "context_thrash",
            severity,
            f"the context shrank {count} times in {state.turns - int(state.falls[0][_TURN]) + 1} turns and "
            f"{seconds([*state.falls, entry(act)])}s, the last time from {fall[_FROM]} to {fall[_TO]} tokens",
            evidence(act, [*state.falls, entry(act)]),
            confidence=min(1.0, count / self.critical),
            values={"falls": count, "from_tokens": int(fall[_FROM]), "to_tokens": int(fall[_TO])},
            thresholds={
                "medium": self.medium,
                "high": self.high,
                "critical": self.critical,
                "last_turns": self.last_turns,
                "falls_to": self.falls_to,
                "min_tokens": self.min_tokens,
            },
        )

    def near(self, state: State) -> float:
        """The falls, to the first count that is a finding."""
        return min(1.0, len(state.falls) / self.medium)
