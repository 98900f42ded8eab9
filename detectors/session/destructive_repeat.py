"""The session destroys the same thing again and again: it does not see that it was done, or cannot be.

Fires: `loop_suspected` (low) on a destructive attempt with one executed attempt on the same target
    before it; `loop_detected` (critical) with more than `same_target_prior` before it, all within
    `window_s` or within the session's last `last_actions` actions. Executed is what was not refused:
    an attempt that ended in an error was tried, and one whose result is still open goes on.
    A declared batch changes nothing here. The same holds of what is exposed, spent, sent or handed over (see
    `commands.effects`): the same again is `loop_suspected`, once more `loop_detected`, high instead of critical.
Quiet: attempts that were refused; scratch, build output, and what is the session's own (see `belongings`), such
    as a file that its programs make anew after each removal; other targets; rows of one table under other conditions.
    Case, quotes, qualification (`dw.public.t`, `t`) and the argument that names it make no other thing.
Misses: one thing under two names that only its system knows to be one; calls without arguments;
    repeats that lie further apart than both windows.
"""

from typing import Annotated, ClassVar

import pydantic
from msgspec import Struct, field
from pydantic import Field

from haltline.detectors.commands.model import LOSSES, ActEffect, Destruction
from haltline.detectors.features.observation import Observation, Phase, Trait
from haltline.detectors.features.same_target import same
from haltline.detectors.features.tool_classifier import UNKNOWN
from haltline.detectors.framework.base import SETTINGS, Detector
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import EVENT_ID, INDEX, Entry, deed, evidence, seconds, within
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding, Severity

_MAX_TARGETS = 128
_MAX_ENTRIES = 16
"""Attempts that are kept of each target, unless the setting counts further."""


_BY_CALL = frozenset((ActEffect.SPENDS, ActEffect.SENDS, ActEffect.HANDS_OVER))
_ROWS = " rows "
"""Between a table and what tells which of its rows."""


class State(Struct):
    """By target: the attempts on it that were not refused."""

    attempts: dict[str, list[Entry]] = field(default_factory=dict)


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=SETTINGS)
class DestructiveRepeat(Detector[State]):
    """More than `same_target_prior` destructive attempts on one target before this one."""

    id: ClassVar[str] = "destructive_repeat"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.PROPOSED, Kind.COMPLETED})
    sees: ClassVar[Trait] = Trait.LOSS | Trait.REFUSED

    same_target_prior: Annotated[int, Field(ge=1, le=1000), Stricter.LOWER] = 1
    """So many executed attempts on a target may lie before one more; a further one is a loop."""
    window_s: Annotated[float, Field(gt=0, le=2_592_000), Stricter.HIGHER] = 600.0
    """Seconds. What happened within them counts together."""
    last_actions: Annotated[int, Field(ge=1, le=10_000), Stricter.HIGHER] = 20
    """Actions. What happened within so many of the session's last ones counts together; those that only look are not
    among them."""

    def start(self) -> State:
        """Nothing destroyed yet."""
        return State()

    def concerns(self, act: Observation) -> bool:
        """Attempts that would destroy something, and refusals of such attempts."""
        return (act.is_attempt or act.refused) and bool(act.irreversible)

    def observe(self, state: State, act: Observation) -> Finding | None:
        """Counts an attempt by its targets, or takes a refused one back."""
        if act.refused:
            _take_back(state, act)
            return None
        worst: list[Entry] = []
        target, effect = "", ActEffect.DESTROYS
        acts = [one for one in reversed(act.irreversible) if one.target != UNKNOWN or act.args is not None]
        named = {_name(act, one): one.effect for one in acts}
        for target_name in reversed(named):
            name = _known_as(state, target_name)
            entries = state.attempts.pop(name, [])
            if entries and entries[-1][EVENT_ID] == act.event.event_id:
                state.attempts[name] = entries  # twice in one act, under two names
                continue
            state.attempts[name] = entries  # now the newest
            entries.append(deed(act))
            del entries[: -max(_MAX_ENTRIES, self.same_target_prior + 2)]
            close = self._close(entries)
            if len(close) > len(worst):
                worst, target, effect = close, name, named[target_name]
        while len(state.attempts) > _MAX_TARGETS:
            del state.attempts[next(iter(state.attempts))]
        return self._found(act, target, worst, effect) if len(worst) > 1 else None

    def near(self, state: State) -> float:
        """Attempts on the target that was tried last, to those that are a loop."""
        if not state.attempts:
            return 0.0
        last = next(reversed(state.attempts.values()))
        return min(1.0, len(self._close(last)) / (self.same_target_prior + 2))

    def _close(self, entries: list[Entry]) -> list[Entry]:
        fast = within(entries, self.window_s * 1000)
        slow = within(entries, self.last_actions - 1, key=INDEX)
        return fast if len(fast) >= len(slow) else slow

    def _found(self, act: Observation, target: str, entries: list[Entry], effect: ActEffect) -> Finding:
        loop = len(entries) - 1 > self.same_target_prior
        target = target.partition(_ROWS)[0]
        code = "loop_detected" if loop else "loop_suspected"
        worst = Severity.CRITICAL if effect in LOSSES else Severity.HIGH
        what = f"{len(entries)} deletes on" if effect in LOSSES else f"{len(entries)} times {effect}:"
        return self.finding(
            code,
            worst if loop else Severity.LOW,
            f"{code}, {what} {target[:512]} in {seconds(entries)}s",
            evidence(act, entries),
            values={"deletes": len(entries), "span_s": seconds(entries)},
            thresholds={
                "same_target_prior": self.same_target_prior,
                "window_s": self.window_s,
                "last_actions": self.last_actions,
            },
            target=target[:512],
        )


def _known_as(state: State, name: str) -> str:
    """The name under which the same thing was tried before; this one, if it was not."""
    if name in state.attempts:
        return name
    target, _, rows = name.partition(_ROWS)
    for known in reversed(state.attempts):
        other, _, its_rows = known.partition(_ROWS)
        if rows == its_rows and same(target, other):
            return known
    return name


def _take_back(state: State, act: Observation) -> None:
    if act.phase is not Phase.RESULT or act.call is None:
        return
    lost = {loss.target for loss in act.irreversible}
    for name in [n for n in state.attempts if any(same(n.partition(_ROWS)[0], target) for target in lost)]:
        kept = [e for e in state.attempts[name] if e[EVENT_ID] != act.call.event_id]
        if kept:
            state.attempts[name] = kept
        else:
            del state.attempts[name]


def _name(act: Observation, loss: Destruction) -> str:
    """What counts as the same thing.

    Of rows under a condition those under the same one; of a payment, a mail and an order to others the same call.
    """
    by_call = loss.verb == "delete_rows" or loss.effect in _BY_CALL or loss.target == UNKNOWN
    return f"{loss.target}{_ROWS}{act.fingerprint}" if by_call else loss.target
