"""What a network does to events on their way."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from benchmarks.runaways.case import Case
from haltline.schemas.events import ActionEvent

Events = Sequence[ActionEvent]

_REPEATED, _LOST, _DELAYED = 0.2, 0.05, 0.05
"""Shares of the events."""
_NEAR, _FAR = 3, 15
"""So many places further on an event may come."""


def repeated(events: Events, rng: random.Random) -> list[ActionEvent]:
    """Some come again a little later, with the same id."""
    again = [(place + rng.randrange(_NEAR * 2) + 0.5, e) for place, e in enumerate(events) if rng.random() < _REPEATED]
    return _placed([*enumerate(events), *again])


def lost(events: Events, rng: random.Random) -> list[ActionEvent]:
    """Some never come."""
    return [event for event in events if rng.random() >= _LOST]


def disordered(events: Events, rng: random.Random) -> list[ActionEvent]:
    """Neighbours change places."""
    return _placed([(place + rng.uniform(0, _NEAR), event) for place, event in enumerate(events)])


def late(events: Events, rng: random.Random) -> list[ActionEvent]:
    """Some come long after those that happened after them."""
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
    """The same case with its events disturbed; the truth about it stays, and so do its steps."""
    rng = random.Random(f"{name}/{case.family.name}/{case.seed}")
    copy = replace(case, events=tuple(DISTURBANCES[name](case.events, rng)))
    copy.__dict__["step"] = case.step  # counted on the case as it was written
    return copy


def _placed(places: list[tuple[float, ActionEvent]] | list[tuple[int, ActionEvent]]) -> list[ActionEvent]:
    return [event for _, event in sorted(places, key=lambda item: item[0])]
