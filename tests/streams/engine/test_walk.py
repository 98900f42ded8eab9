"""How far a record walks in the core: what a person who follows it has to open.

A room is a module of haltline that the core or its rule set calls; what that call enters itself is inside of it, as is
the evaluation of all detectors one after another. Making a record or a dataclass is no room. A return is a call of a
room that was left for another one before.
"""

import sys
from types import FrameType
from typing import Any

from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.streams.engine.core import Core, Position, SessionState
from tests.builders import cases
from tests.streams.engine.test_groups import event

READ: dict[str, Any] = {"action": "read_file", "targets": ["path=/y"], "args": {"path": "/y"}, "call_id": "c"}
WALKING = ("haltline.streams.engine.core", "haltline.streams.engine.rule_sets")
DETECTORS = tuple(
    f"haltline.detectors.{name}" for name in ("session", "combining", "drift", "review", "framework.base")
)


def rooms_of(core: Core, state: SessionState, last: ActionEvent) -> list[str]:
    """The rooms in the order of the walk; consecutive calls of one are one."""
    walk: list[str] = []
    inside: list[FrameType] = []

    def look(frame: FrameType, what: str, _: object) -> None:
        if what == "return" and inside and inside[-1] is frame:
            inside.pop()
        name = frame.f_globals.get("__name__", "")
        is_made = frame.f_code.co_filename == "<string>" or frame.f_code.co_name == "__init__"
        if what != "call" or inside or is_made or name in WALKING or not name.startswith("haltline."):
            return
        inside.append(frame)
        room = "a detector" if name.startswith(DETECTORS) else name
        if walk[-1:] != [room]:
            walk.append(room)

    sys.setprofile(look)
    try:
        core.on_event(state, last, Position("actions", 0, 9))
    finally:
        sys.setprofile(None)
    return walk


@cases(
    "last",
    {
        "a call": event(9, "s", **READ),
        "a call that waits for the verdict": event(9, "s", await_verdict=True, **READ),
        "its result": event(9, "s", Kind.COMPLETED, outcome=Outcome.OK, **READ),
        "a turn of the model": event(9, "s", Kind.MODEL_TURN),
        "a deletion": event(9, "s", action="bash", call_id="c", args={"command": "rm -rf build"}, await_verdict=True),
    },
)
def test_an_event_passes_at_most_twelve_rooms_and_returns_to_six(last: ActionEvent) -> None:
    core, state = Core(), None
    for number in range(5):
        own = {"call_id": f"c{number}", "targets": [f"path=/{number}"], "args": {"path": number}}
        before = event(number, "s", **READ | own)
        state = core.on_event(state, before, Position("actions", 0, number)).state
    assert state is not None
    walk = rooms_of(core, state, last)
    rooms, returns = len({*walk}) + len(WALKING), len(walk) - len({*walk})
    assert rooms <= 12, walk
    assert returns <= 6, walk
