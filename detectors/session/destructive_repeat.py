"""The session destroys the same thing again and again: it does not notice that it succeeded, or cannot.

Fires: `loop_suspected` (low) on a destructive attempt after one executed attempt on the same target; `loop_detected`
    (critical) after more than `same_target_prior`, all within `window_s` or within the session's last `last_actions`
    actions. An attempt counts as executed unless it was refused, also if it failed or its result is still pending. A
    declared batch makes no difference. For what is exposed, spent, sent or handed over (see `commands.effects`), and
    for losses that no row names (`Destruction.guessed`), the second time is `loop_suspected` and the next
    `loop_detected`, high instead of critical.
Quiet: refused attempts; scratch files, build output, and what belongs to the session (see `belongings`), such as a file
    that its programs recreate after each removal; other targets; rows of one table under other conditions. Differences
    in case, quotes, qualification (`dw.public.t`, `t`) and the name of the argument are ignored.
Misses: one thing under two names that only its system can resolve; calls without arguments; repetitions that are
    further apart than both windows.
"""

from typing import Annotated, ClassVar

from msgspec import field
from pydantic import Field

from haltline.detectors.commands.model import LOSSES, ActEffect, Destruction
from haltline.detectors.features.observation import Observation, Phase, Trait
from haltline.detectors.features.same_target import same
from haltline.detectors.features.tool_classifier import UNKNOWN
from haltline.detectors.framework.base import Detector, settings
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import EVENT_ID, INDEX, Entry, deed, evidence, seconds, within
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.stored import Stored

_MAX_TARGETS = 128
_MAX_ENTRIES = 16
"""Attempts stored per target, unless the setting needs more."""


_BY_CALL = frozenset((ActEffect.SPENDS, ActEffect.SENDS, ActEffect.HANDS_OVER))
_ROWS = " rows "
"""Separator between a table and the condition on its rows."""


class DestructiveRepeatState(Stored):
    """The executed attempts, by target."""

    attempts: dict[str, list[Entry]] = field(default_factory=dict)


@settings
class DestructiveRepeat(Detector[DestructiveRepeatState]):
    """More than `same_target_prior` executed attempts on one target before another one."""

    id: ClassVar[str] = "destructive_repeat"
    sees: ClassVar[Trait] = Trait.LOSS | Trait.REFUSED

    same_target_prior: Annotated[int, Field(ge=1, le=1000), Stricter.LOWER] = 1
    """Executed attempts on a target allowed before another one is suspicious; one more is a loop."""
    window_s: Annotated[float, Field(gt=0, le=2_592_000), Stricter.HIGHER] = 600.0
    """Seconds. Attempts within this time count together."""
    last_actions: Annotated[int, Field(ge=1, le=10_000), Stricter.HIGHER] = 20
    """Actions. Attempts within this many of the session's last actions count together; actions that only read are not
    included."""

    def concerns(self, act: Observation) -> bool:
        """Destructive attempts, and their refusals."""
        return (act.is_attempt or act.refused) and bool(act.irreversible)

    def observe(self, state: DestructiveRepeatState, act: Observation) -> Finding | None:
        """Count an attempt by its targets, or remove a refused one."""
        if act.refused:
            _take_back(state, act)
            return None
        worst: list[Entry] = []
        target, act_there = "", None
        acts = [one for one in reversed(act.irreversible) if one.target != UNKNOWN or act.args is not None]
        named = {_name(act, one): one for one in acts}
        for target_name in reversed(named):
            name = _known_as(state, target_name)
            entries = state.attempts.pop(name, [])
            if entries and entries[-1][EVENT_ID] == act.event.event_id:
                state.attempts[name] = entries  # twice in one act, under two names
                continue
            state.attempts[name] = entries  # moved to the end, as the newest
            entries.append(deed(act))
            del entries[: -max(_MAX_ENTRIES, self.same_target_prior + 2)]
            close = self._close(entries)
            if len(close) > len(worst):
                worst, target, act_there = close, name, named[target_name]
        while len(state.attempts) > _MAX_TARGETS:
            del state.attempts[next(iter(state.attempts))]
        return self._found(act, target, worst, act_there) if act_there is not None and len(worst) > 1 else None

    def near(self, state: DestructiveRepeatState) -> float:
        """Attempts on the last target, relative to the number that is a loop."""
        if not state.attempts:
            return 0.0
        last = next(reversed(state.attempts.values()))
        return min(1.0, len(self._close(last)) / (self.same_target_prior + 2))

    def _close(self, entries: list[Entry]) -> list[Entry]:
        fast = within(entries, self.window_s * 1000)
        slow = within(entries, self.last_actions - 1, key=INDEX)
        return fast if len(fast) >= len(slow) else slow

    def _found(self, act: Observation, target: str, entries: list[Entry], one: Destruction) -> Finding:
        loop = len(entries) - 1 > self.same_target_prior
        target = target.partition(_ROWS)[0]
        code = "loop_detected" if loop else "loop_suspected"
        worst = Severity.CRITICAL if one.effect in LOSSES and not one.guessed else Severity.HIGH
        what = f"{len(entries)} deletes on" if one.effect in LOSSES else f"{len(entries)} times {one.effect}:"
        return self.finding(
            code,
            worst if loop else Severity.LOW,
            f"{code}, {what} {target[:512]} in {seconds(entries)}s",
            evidence(act, entries),
            values={"deletes": len(entries), "span_s": seconds(entries)},
            thresholds=self.thresholds("same_target_prior", "window_s", "last_actions"),
            target=target[:512],
        )


def _known_as(state: DestructiveRepeatState, name: str) -> str:
    """The name under which the same thing was attempted before, or else this name."""
    if name in state.attempts:
        return name
    target, _, rows = name.partition(_ROWS)
    for known in reversed(state.attempts):
        other, _, its_rows = known.partition(_ROWS)
        if rows == its_rows and same(target, other):
            return known
    return name


def _take_back(state: DestructiveRepeatState, act: Observation) -> None:
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
    """The key that identifies a thing.

    For rows, it includes their condition; for payments, messages and orders to others, the whole call.
    """
    by_call = loss.verb == "delete_rows" or loss.effect in _BY_CALL or loss.target == UNKNOWN
    return f"{loss.target}{_ROWS}{act.fingerprint}" if by_call else loss.target
