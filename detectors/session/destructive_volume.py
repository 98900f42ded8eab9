"""The session destroys many things in a short time.

Fires: on every destructive attempt that makes `max_deletes` within `window_s`, or
    `max_deletes_in_actions` within the session's last `last_actions` actions (real agents take 5 to
    40 seconds for a call, so that a slow one never makes three in a minute); on every one beyond what
    a declared batch allows. Each thing that an attempt would take away counts once, so that one call
    with ten assets is ten; but the files that one command line removes are one, since that is how
    everybody cleans up. The same thing twice counts twice. An entry that is exactly `window_s` old
    still counts.
Quiet: scratch, build output, and what is the session's own (see `belongings`); what an act makes itself, messages that
    are acknowledged, items of carts, drafts; branches that are called as those of one task are (`fix/x`, `ada/wip`);
    attempts that were refused; a declared batch, up to the number that was declared, and what a person has approved
    (`interventions.control.asks_once`).
Misses: destruction that neither the tool's name, nor the policy, nor the command line tells; many files in one
    command line; sessions that stay below both counts; many sessions that destroy a little each.
"""

from typing import Annotated, ClassVar

import pydantic
from msgspec import Struct, field
from pydantic import Field

from haltline.detectors.commands.model import ActEffect, Badness, Destruction
from haltline.detectors.commands.names import is_work_branch
from haltline.detectors.features.observation import Observation, Phase, Trait
from haltline.detectors.framework.base import SETTINGS, Detector
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import EVENT_ID, INDEX, Entry, deed, evidence, seconds, within
from haltline.schemas.control import Batch
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding, Severity

_ONE_BY_ONE = frozenset((ActEffect.SENDS, ActEffect.HANDS_OVER, ActEffect.SPENDS))
_MAX_ENTRIES = 128
"""Entries that are kept, unless a setting counts further."""


class State(Struct):
    """What was destroyed lately, and under which declared batch."""

    entries: list[Entry] = field(default_factory=list)
    batch: str = ""
    batch_count: int = 0


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=SETTINGS)
class DestructiveVolume(Detector[State]):
    """`max_deletes` destructive attempts within `window_s`."""

    id: ClassVar[str] = "destructive_volume"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.PROPOSED, Kind.COMPLETED})
    sees: ClassVar[Trait] = Trait.LOSS | Trait.REFUSED

    max_deletes: Annotated[int, Field(ge=1, le=10_000), Stricter.LOWER] = 3
    """As many as this within the window are a finding."""
    window_s: Annotated[float, Field(gt=0, le=2_592_000), Stricter.HIGHER] = 60.0
    """Seconds. What happened within them counts together."""
    max_deletes_in_actions: Annotated[int, Field(ge=1, le=10_000), Stricter.LOWER] = 5
    """As many as this within the last actions are a finding, however long these took."""
    last_actions: Annotated[int, Field(ge=1, le=10_000), Stricter.HIGHER] = 20
    """Actions. What happened within so many of the session's last ones counts together; those that only look are not
    among them."""

    def start(self) -> State:
        """Nothing destroyed yet."""
        return State()

    def concerns(self, act: Observation) -> bool:
        """Attempts that would destroy something, and refusals of such attempts."""
        return (act.is_attempt or act.refused) and bool(_of_interest(act))

    def observe(self, state: State, act: Observation) -> Finding | None:
        """Counts an attempt, or takes a refused one back."""
        if act.refused:
            _take_back(state, act)
            return None
        if act.batch is not None:
            return self._under_batch(state, act, act.batch)
        state.entries += [deed(act, loss.target) for loss in _counted(act)]
        kept = max(_MAX_ENTRIES, self.max_deletes, self.max_deletes_in_actions)
        del state.entries[:-kept]
        fast = within(state.entries, self.window_s * 1000)
        if len(fast) >= self.max_deletes:
            reason = f"{len(fast)} destructive actions in {seconds(fast)}s"
            return self._found(act, Severity.CRITICAL, reason, fast)
        slow = within(state.entries, self.last_actions - 1, key=INDEX)
        if len(slow) >= self.max_deletes_in_actions:
            reason = f"{len(slow)} destructive actions within {self.last_actions} actions, in {seconds(slow)}s"
            return self._found(act, Severity.HIGH, reason, slow)
        return None

    def near(self, state: State) -> float:
        """The fuller of the two windows."""
        fast = len(within(state.entries, self.window_s * 1000)) / self.max_deletes
        slow = len(within(state.entries, self.last_actions - 1, key=INDEX)) / self.max_deletes_in_actions
        return min(1.0, max(fast, slow))

    def _under_batch(self, state: State, act: Observation, batch: Batch) -> Finding | None:
        """A person allowed so many in all; they do not count as anything else."""
        name = f"{batch.actions} {batch.expires} {batch.max_deletes}"
        if state.batch != name:
            state.batch, state.batch_count = name, 0
        state.batch_count += len(_counted(act))
        if state.batch_count <= batch.max_deletes:
            return None
        reason = f"{state.batch_count} destructive actions in a batch that was declared for {batch.max_deletes}"
        return self._found(act, Severity.CRITICAL, reason, [deed(act, _counted(act)[0].target)])

    def _found(self, act: Observation, severity: Severity, reason: str, entries: list[Entry]) -> Finding:
        return self.finding(
            "destructive_volume",
            severity,
            reason,
            evidence(act, entries),
            values={"deletes": len(entries), "span_s": seconds(entries)},
            thresholds={
                "max_deletes": self.max_deletes,
                "window_s": self.window_s,
                "max_deletes_in_actions": self.max_deletes_in_actions,
                "last_actions": self.last_actions,
            },
        )


def _counted(act: Observation) -> list[Destruction]:
    """The losses, of the files of one command line only the first."""
    losses = _of_interest(act)
    if not act.runs or len(losses) == 1:
        return losses
    files = [loss for loss in losses if loss.target.startswith("path=")]
    return files[:1] + [loss for loss in losses if not loss.target.startswith("path=")]


def _of_interest(act: Observation) -> list[Destruction]:
    """Without what is sent, paid or handed over, and branches of somebody's work: many different ones are work.

    The same again is none (see `destructive_repeat`).
    """
    return [
        loss
        for loss in act.irreversible
        if loss.effect not in _ONE_BY_ONE and not loss.reversible and not _is_branch_of_work(loss)
    ]


def _is_branch_of_work(loss: Destruction) -> bool:
    kind, _, name = loss.target.partition("=")
    return kind in ("branch", "git") and loss.badness is not Badness.SEVERE and is_work_branch(name)


def _take_back(state: State, act: Observation) -> None:
    if act.phase is not Phase.RESULT or act.call is None:
        return
    kept = [e for e in state.entries if e[EVENT_ID] != act.call.event_id]
    if len(kept) == len(state.entries) and state.batch_count:
        state.batch_count = max(0, state.batch_count - len(_counted(act)))
    state.entries = kept
