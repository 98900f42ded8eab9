"""Disturbances of event delivery: duplicates, losses, reordering and delay."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from benchmarks.runaways.case import Case
from haltline.schemas.events import ActionEvent

Events = Sequence[ActionEvent]

_REPEATED, _LOST, _DELAYED = 0.2, 0.05, 0.05
"""Shares of the events."""
_NEAR, _FAR = 3, 15
"""Maximum number of places by which an event may be moved."""


def repeated(events: Events, rng: random.Random) -> list[ActionEvent]:
    """Some events are delivered a second time, a little later, with the same id."""
    again = [(place + rng.randrange(_NEAR * 2) + 0.5, e) for place, e in enumerate(events) if rng.random() < _REPEATED]
    return _placed([*enumerate(events), *again])


def lost(events: Events, rng: random.Random) -> list[ActionEvent]:
    """Some events are never delivered."""
    return [event for event in events if rng.random() >= _LOST]


def disordered(events: Events, rng: random.Random) -> list[ActionEvent]:
    """Neighbouring events are swapped."""
    return _placed([(place + rng.uniform(0, _NEAR), event) for place, event in enumerate(events)])


def late(events: Events, rng: random.Random) -> list[ActionEvent]:
    """Some events are delivered long after later ones."""
    return _placed(
        [
            (place + (rng.uniform(_NEAR, _FAR) if rng.random() < _DELAYED else 0), event)
            for place, event in enumerate(events)
        ]
    )


DISTURBANCES: Mapping[str, Callable[[Events, random.Random], list[ActionEvent]]] = {
    disturb.__name__: disturb for disturb in (repeated, lost, disordered, late)
}


def disturbed(case: Case, name: str) -> Case:
    """The same case with its events disturbed; its ground truth and its steps stay the same."""
    rng = random.Random(f"{name}/{case.family.name}/{case.seed}")
    copy = replace(case, events=tuple(DISTURBANCES[name](case.events, rng)))
    copy.__dict__["step"] = case.step  # counted in the original order
    return copy


def _placed(places: list[tuple[float, ActionEvent]] | list[tuple[int, ActionEvent]]) -> list[ActionEvent]:
    return [event for _, event in sorted(places, key=lambda item: item[0])]
