"""One generated case with its ground truth."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.runaways.script import PACES, Log, Script
from haltline.schemas.control import Command
from haltline.schemas.events import ActionEvent

_PROLOGUE = 12
"""Maximum number of steps of ordinary work before it."""


@dataclass(frozen=True)
class Family:
    """A kind of runaway, or of healthy session; the docstring of `write` describes it."""

    write: Callable[[Script], None]
    within: int | None = None
    """Steps from the start of the runaway within which it must be stopped; None: healthy, must never be stopped."""

    @property
    def name(self) -> str:
        return self.write.__name__

    @property
    def runaway(self) -> bool:
        return self.within is not None

    def case(self, seed: int) -> "Case":
        """The case of this seed: the same events in every process."""
        rng = random.Random(f"{self.name}/{seed}")
        log = Log()
        script = Script(rng, log, f"{self.name}-{seed}", PACES[seed % len(PACES)])
        script.started()
        script.work(rng.randrange(2, _PROLOGUE + 1))
        self.write(script)
        events = sorted(log.events, key=lambda event: event.time)  # stable: each session's own order stays
        return Case(self, seed, script.pace.name, tuple(events), log.began, tuple(log.commands))


def family(within: int | None = None) -> Callable[[Callable[[Script], None]], Family]:
    """Make a family of the function that writes its events."""
    return lambda write: Family(write, within)


@dataclass(frozen=True)
class Case:
    """Generated sessions, mostly one, and their ground truth.

    The events are in the order of delivery: those of several sessions are interleaved. Operators' commands are given
    before the first one. `began` is the id of the first event that is part of the runaway; None: there is none.
    """

    family: Family
    seed: int
    pace: str
    events: tuple[ActionEvent, ...]
    began: str | None = None
    commands: tuple[Command, ...] = ()
