"""The session does something irreversible to a thing that is not its own, for the first time.

Fires: `ask_first` (high, which leads to a question to a person) on an attempt with one of `effects` on a target on
    which the session has not carried out an act of the same effect before. Where a call cannot name its target,
    on each.
Quiet: by itself, since `effects` is empty: irreversible acts are then only counted
    (`haltline_irreversible_acts_total`) and shown in the console. Targets of `allowed`; what the session made, scratch
    files and build output (see `belongings`); acts that can be taken back; a declared batch; attempts that were refused
    before. What was approved and carried out once is free, also when it failed: the same again is for
    `destructive_repeat`.
Misses: effects that neither the tool, the policy nor the command line tells; other acts of the same effect on a target
    that was approved, such as another amount.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Annotated, ClassVar, Literal

import pydantic
from msgspec import Struct, field
from pydantic import Field

from haltline.detectors.commands.model import Destruction
from haltline.detectors.features.call_tracker import UNKNOWN
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import SETTINGS, Detector
from haltline.detectors.framework.strictness import Stricter
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding, Severity

Effect = Literal["destroys", "overwrites", "exposes", "spends", "sends", "hands_over"]
"""The values of `ActEffect`, as policies write them."""

_LISTED = 3
"""Acts that the reason names; of more it says how many."""
_MAX_WAITING = 32
"""Attempts that are remembered until their result comes."""
_MAX_TARGETS = 32
"""Targets of one attempt that are remembered; the others are asked about again."""
_MAX_DONE = 256
"""Targets that are remembered as approved; the oldest are forgotten first, and asked about again."""


class State(Struct):
    """What was asked about, and what of it was carried out, as digests of effect and target."""

    waiting: dict[str, list[str]] = field(default_factory=dict)
    """By event id of an attempt whose result is not known."""
    done: list[str] = field(default_factory=list)


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=SETTINGS)
class AskFirst(Detector[State]):
    """The first irreversible act on each target."""

    id: ClassVar[str] = "ask_first"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.PROPOSED, Kind.COMPLETED})
    sees: ClassVar[Trait] = Trait.LOSS | Trait.REFUSED

    effects: Annotated[tuple[Effect, ...], Field(max_length=6), Stricter.MORE] = ()
    """Effects of acts that a person is asked about; none: nobody is asked."""
    allowed: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=512)], ...], Field(max_length=256), Stricter.NEITHER
    ] = ()
    """Globs of targets, as `kind=name`, that nobody is asked about, such as `path=/srv/staging/*`."""

    @property
    def idle(self) -> bool:
        """Without effects nobody is asked."""
        return not self.effects

    def start(self) -> State:
        """Nothing yet."""
        return State()

    def concerns(self, act: Observation) -> bool:
        """Acts that cannot be taken back, and their results."""
        return (act.is_attempt or act.is_result) and bool(act.irreversible)

    def observe(self, state: State, act: Observation) -> Finding | None:
        """Names what nobody has approved yet."""
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
            f"the first irreversible act on what the session did not make: {_listed(unapproved)}",
            (act.evidence,),
            values={"acts": len(unapproved), "effect": unapproved[0].effect.value},
            target=unapproved[0].target[:512],
        )

    def asks_about(self, one: Destruction) -> bool:
        """Whether an act is of the effects, and on no allowed target."""
        if one.effect.value not in self.effects or one.reversible:
            return False
        return not any(fnmatchcase(one.target, glob) for glob in self.allowed)


def _carried_out(state: State, keys: Sequence[str], act: Observation) -> None:
    """What was not refused was approved, or nobody had to approve it."""
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
