"""Runs the core on a generated case."""

from dataclasses import dataclass

from benchmarks.runaways.case import Case
from haltline.schemas.decisions import Level
from haltline.streams.engine.core import Core, Position
from haltline.streams.engine.local_fleet import Fleet, decisions_of

STOPPED = Level.PAUSE


@dataclass(frozen=True)
class Seen:
    """The decisions in one case."""

    level: Level = Level.ALLOW
    """The highest level."""
    detector: str = ""
    """The detector that stopped it."""
    reason: str = ""
    stopped: str | None = None
    """Id of the event on which it was stopped."""
    steps: int | None = None
    """Steps from the start of the runaway to the last one delivered; None: not stopped, or stopped before it."""
    rules: frozenset[str] = frozenset()
    """The detectors with a finding up to the stop."""

    def caught(self, within: int) -> bool:
        """Return whether the runaway was stopped after it began and within this many steps."""
        return self.steps is not None and self.steps <= within


def watch(core: Core, case: Case) -> Seen:
    """Runs all sessions of the case with all rules, also across sessions, to the first stop or the end."""
    fleet = Fleet(core)
    for command in case.commands:
        fleet.command(command)
    level, reached = Level.ALLOW, 0
    rules: set[str] = set()
    for offset, event in enumerate(case.events):
        reached = max(reached, case.step[event.event_id])
        for followed in fleet.event(event, Position("synthetic", 0, offset)):
            if followed.failures:
                raise followed.failures[0].error
            rules.update(detection.finding.detector for detection in followed.detections)
            for decision in decisions_of(followed):
                level = max(level, decision.level)
                if decision.level >= STOPPED:
                    steps = case.steps_since_it_began(reached)
                    return Seen(level, decision.detector, decision.reason, event.event_id, steps, frozenset(rules))
    return Seen(level, rules=frozenset(rules))
