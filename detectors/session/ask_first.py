"""The session performs an irreversible act on a thing that is not its own, for the first time.

Fires: `ask_first` (high, which requests an approval from a person) on an attempt with one of `effects` on a target on
    which the session has not yet executed an act of the same effect. If a call does not name its target, on every such
    attempt.
Quiet: by default, since `effects` is empty: irreversible acts are then only counted
    (`haltline_irreversible_acts_total`) and shown in the console. Also for targets in `allowed`; what the session
    created, scratch files and build output (see `belongings`); branches named like those of one task; reversible acts;
    a declared batch; attempts that were already refused. An act that was approved and executed once needs no further
    approval, even if it failed: repetitions are left to `destructive_repeat`.
Misses: effects that neither the tool, the policy nor the command line shows; other acts of the same effect on an
    approved target, such as another amount.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Annotated, ClassVar, Literal

from msgspec import field
from pydantic import Field

from haltline.detectors.commands.model import Destruction
from haltline.detectors.features.call_tracker import UNKNOWN
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.features.ownership import is_branch_of_work
from haltline.detectors.framework.base import Detector, settings
from haltline.detectors.framework.strictness import Stricter
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.stored import Stored

Effect = Literal["destroys", "overwrites", "exposes", "spends", "sends", "hands_over"]
"""The values of `ActEffect`, as written in policies."""

_LISTED = 3
"""Acts listed in the reason; the number of further ones is appended."""
_MAX_WAITING = 32
"""Attempts stored until their result arrives."""
_MAX_TARGETS = 32
"""Targets stored per attempt; the others need another approval."""
_MAX_DONE = 256
"""Targets stored as approved; the oldest are dropped first, and need another approval."""


class AskFirstState(Stored):
    """Acts that needed an approval, and which of them were executed, as digests of effect and target."""

    waiting: dict[str, list[str]] = field(default_factory=dict)
    """By event id of each attempt without a result."""
    done: list[str] = field(default_factory=list)


@settings
class AskFirst(Detector[AskFirstState]):
    """The first irreversible act on each target, for approval."""

    id: ClassVar[str] = "ask_first"
    sees: ClassVar[Trait] = Trait.LOSS | Trait.REFUSED

    effects: Annotated[tuple[Effect, ...], Field(max_length=6), Stricter.MORE] = ()
    """Effects of acts that need a person's approval; empty: none do."""
    allowed: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=512)], ...], Field(max_length=256), Stricter.NEITHER
    ] = ()
    """Globs of targets, as `kind=name`, that need no approval, such as `path=/srv/staging/*`."""

    @property
    def idle(self) -> bool:
        """True without effects: then nothing needs an approval."""
        return not self.effects

    def concerns(self, act: Observation) -> bool:
        """Irreversible acts, and their results."""
        return (act.is_attempt or act.is_result) and bool(act.irreversible)

    def observe(self, state: AskFirstState, act: Observation) -> Finding | None:
        """Report the acts that nobody has approved yet."""
        if act.call is not None:
            _carried_out(state, state.waiting.pop(act.call.event_id, []), act)
            return None
        if act.refused or not act.is_attempt or act.batch is not None:
            return None
        unapproved = [one for one in act.irreversible if self.asks_about(one) and _key(one) not in state.done]
        if not unapproved:
            return None
        keys = [*dict.fromkeys(_key(one) for one in unapproved if _target_of(one) != UNKNOWN)][:_MAX_TARGETS]
        if act.is_result:
            _carried_out(state, keys, act)
        elif keys:
            state.waiting[act.event.event_id] = keys
            if len(state.waiting) > _MAX_WAITING:
                del state.waiting[next(iter(state.waiting))]
        return self.finding(
            "ask_first",
            Severity.HIGH,
            f"the first irreversible act on something that the session did not create: {_listed(unapproved)}",
            (act.evidence,),
            values={"acts": len(unapproved), "effect": unapproved[0].effect.value},
            target=unapproved[0].target[:512],
        )

    def asks_about(self, one: Destruction) -> bool:
        """Return whether an act has one of the effects, and no allowed target."""
        if one.effect.value not in self.effects or one.reversible or is_branch_of_work(one):
            return False
        return not any(fnmatchcase(one.target, glob) for glob in self.allowed)


def _carried_out(state: AskFirstState, keys: Sequence[str], act: Observation) -> None:
    """Mark acts as approved unless they were refused: an executed act was approved, or needed no approval."""
    if not act.refused:
        state.done += [key for key in keys if key not in state.done]
        del state.done[:-_MAX_DONE]


def _target_of(one: Destruction) -> str:
    return one.target.rpartition("=")[2]


def _key(one: Destruction) -> str:
    return blake2b(f"{one.effect.value} {one.target}".encode(errors="replace"), digest_size=8).hexdigest()


def _listed(acts: Sequence[Destruction]) -> str:
    listed = ", ".join(f"{one.verb:.60} of {one.target:.120} ({one.effect.value})" for one in acts[:_LISTED])
    return f"{listed} and {len(acts) - _LISTED} more" if len(acts) > _LISTED else listed
