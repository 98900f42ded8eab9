"""The steps of recorded sessions as the detector sees them, for training."""

from collections.abc import Iterable
from dataclasses import dataclass

from haltline.detectors.features.observation import CallTracker, Observation
from haltline.detectors.features.tool_classifier import Classifier
from haltline.schemas.policy import Policy
from haltline.streams.replay.backtest import Recorded


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one session, in order."""

    numbers: tuple[int, ...]
    """The number of each step's event in the source."""
    values: tuple[tuple[float, ...], ...]
    """`novelty.VALUES` after each step."""


def steps_of(sessions: Iterable[Recorded], policy: Policy | None = None) -> list[Steps]:
    """Return the steps of each session alone, as a worker would measure them with this policy's tools."""
    classifier = Classifier(policy or Policy())
    return [_steps(session, classifier) for session in sessions]


def _steps(session: Recorded, classifier: Classifier) -> Steps:
    calls = CallTracker()
    numbers: list[int] = []
    values: list[tuple[float, ...]] = []
    for number, event in session.events:
        phase, call = calls.phase(event)
        act = Observation(event, classifier, phase, calls, call)
        if act.novelty is not None:
            numbers.append(number)
            values.append(act.novelty)
        calls.note(act)
    return Steps(tuple(numbers), tuple(values))
