"""The session destroys many things in a short time.

Fires: on every destructive attempt that completes `max_deletes` within `window_s` (critical), or
    `max_deletes_in_actions` within the session's last `last_actions` actions (high); real agents take 5 to 40 seconds
    per call, so that a slow one never makes three in a minute. Also on every attempt beyond the number that a declared
    batch allows (critical). Each thing that an attempt would delete counts once, so one call with ten assets counts
    ten; but the files that one command line removes count one, since that is the usual way to clean up. The same thing
    twice counts twice. An entry exactly `window_s` old still counts.
Quiet: scratch files, build output, and what belongs to the session (see `belongings`); what an act creates itself,
    acknowledged messages, items of carts, drafts; branches named like those of one task (`fix/x`, `ada/wip`); refused
    attempts; a declared batch, up to its number, and acts that a person has approved
    (`interventions.control.declared_batches`).
Misses: destruction that neither the tool's name, nor the policy, nor the command line shows; many files in one command
    line; sessions that stay below both counts; many sessions that each destroy a little.
"""

from typing import Annotated, ClassVar

from msgspec import field
from pydantic import Field

from haltline.detectors.commands.model import ActEffect, Destruction
from haltline.detectors.features.observation import Observation, Phase, Trait
from haltline.detectors.features.ownership import is_branch_of_work
from haltline.detectors.framework.base import Detector, settings
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import EVENT_ID, INDEX, Entry, deed, evidence, seconds, within
from haltline.schemas.control import Batch
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.stored import Stored

_ONE_BY_ONE = frozenset((ActEffect.SENDS, ActEffect.HANDS_OVER, ActEffect.SPENDS))
_MAX_ENTRIES = 128
"""Entries stored, unless a setting needs more."""


class DestructiveVolumeState(Stored):
    """Recent destructive acts, and the count of the current declared batch."""

    entries: list[Entry] = field(default_factory=list)
    batch: str = ""
    batch_count: int = 0


@settings
class DestructiveVolume(Detector[DestructiveVolumeState]):
    """Many destructive attempts within a time, or within a number of actions."""

    id: ClassVar[str] = "destructive_volume"
    sees: ClassVar[Trait] = Trait.LOSS | Trait.REFUSED

    max_deletes: Annotated[int, Field(ge=1, le=10_000), Stricter.LOWER] = 3
    """The number of destructive attempts within the window that makes a finding."""
    window_s: Annotated[float, Field(gt=0, le=2_592_000), Stricter.HIGHER] = 60.0
    """Seconds. Attempts within this time count together."""
    max_deletes_in_actions: Annotated[int, Field(ge=1, le=10_000), Stricter.LOWER] = 5
    """The number of destructive attempts within the last actions that makes a finding, however long they took."""
    last_actions: Annotated[int, Field(ge=1, le=10_000), Stricter.HIGHER] = 20
    """Actions. Attempts within this many of the session's last actions count together; actions that only read are not
    included."""

    def concerns(self, act: Observation) -> bool:
        """Destructive attempts, and their refusals."""
        return (act.is_attempt or act.refused) and bool(_of_interest(act))

    def observe(self, state: DestructiveVolumeState, act: Observation) -> Finding | None:
        """Count an attempt, or remove a refused one."""
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

    def near(self, state: DestructiveVolumeState) -> float:
        """The fuller of the two windows."""
        fast = len(within(state.entries, self.window_s * 1000)) / self.max_deletes
        slow = len(within(state.entries, self.last_actions - 1, key=INDEX)) / self.max_deletes_in_actions
        return min(1.0, max(fast, slow))

    def _under_batch(self, state: DestructiveVolumeState, act: Observation, batch: Batch) -> Finding | None:
        """Count an attempt in a batch, up to the number that a person allowed; it counts nowhere else."""
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
            thresholds=self.thresholds("max_deletes", "window_s", "max_deletes_in_actions", "last_actions"),
        )


def _counted(act: Observation) -> list[Destruction]:
    """The destroyed things; of the files of one command line only the first."""
    losses = _of_interest(act)
    if not act.runs or len(losses) == 1:
        return losses
    files = [loss for loss in losses if loss.target.startswith("path=")]
    return files[:1] + [loss for loss in losses if not loss.target.startswith("path=")]


def _of_interest(act: Observation) -> list[Destruction]:
    """The irreversible acts, except things sent, paid or handed over, and work branches.

    Many different ones of these are normal. Repetitions of the same one are left to `destructive_repeat`.
    """
    return [
        loss
        for loss in act.irreversible
        if loss.effect not in _ONE_BY_ONE and not loss.reversible and not is_branch_of_work(loss)
    ]


def _take_back(state: DestructiveVolumeState, act: Observation) -> None:
    if act.phase is not Phase.RESULT or act.call is None:
        return
    kept = [e for e in state.entries if e[EVENT_ID] != act.call.event_id]
    if len(kept) == len(state.entries) and state.batch_count:
        state.batch_count = max(0, state.batch_count - len(_counted(act)))
    state.entries = kept
