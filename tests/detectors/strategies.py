"""Sessions of every kind, for the properties that hold for all detectors."""

import random
from functools import cache
from typing import Any

from hypothesis import strategies as st

from haltline.schemas.events import ActionEvent, Effect, Kind, Outcome, Usage
from tests.builders import T0_MS

ACTIONS = ("delete_asset", "drop_table", "read_file", "write_file", "create_asset", "bash", "sql", "job_status", "odd")
TARGETS = ("asset_id=a", "asset_id=b", "path=/srv/x", "table=prod.t", "")
COMMANDS = (
    "ls",
    "rm -rf /srv/data",
    "python t.py",
    "sed -i s/a/b/ x",
    "git push -f",
    "sleep 5; curl x",
    "DROP TABLE t",
    "",
)
ERRORS = ("not found: /a/1", "not found: /b/22", "permission denied", "exit code 1", "", None)

TASKS = (
    None,
    {"goal": "delete asset a and read /srv/x", "expected_paths": ["src/**"], "limits": {"calls": 3, "cost_usd": 1.0}},
    {"goal": "", "expected_paths": [], "limits": {}},
)


@st.composite
def events(draw: st.DrawFn, session: str = "s1") -> ActionEvent:
    """One event: often late, sometimes of a call that was seen before, sometimes with hardly anything in it."""
    number = draw(st.integers(0, 10**9))
    outcome = draw(st.sampled_from((*Outcome, None)))
    fields: dict[str, Any] = {
        "event_id": f"{session}-{number}",
        "kind": draw(st.sampled_from((Kind.PROPOSED, Kind.COMPLETED, Kind.COMPLETED, *Kind))),
        "session_id": session,
        "time": T0_MS + draw(st.integers(-100, 100)) * 1000 + draw(st.sampled_from((0, 1, 999))),
        "call_id": draw(st.sampled_from((None, "c1", "c2", "c3"))),
        "action": draw(st.sampled_from(ACTIONS)),
        "targets": [t for t in [draw(st.sampled_from(TARGETS))] if t],
        "effect": draw(st.sampled_from((None, None, None, *Effect))),
        "outcome": outcome,
        "error": draw(st.sampled_from(ERRORS)) if outcome is not Outcome.OK else None,
        "args": draw(
            st.sampled_from((None, {"command": draw(st.sampled_from(COMMANDS))}, {"asset_id": ["a", "b", "c"]}))
        ),
        "output_bytes": draw(st.sampled_from((None, 0, 10, 10**5, 10**7))),
        "duration_ms": draw(st.sampled_from((None, 0.0, 5.5, 60_000.0))),
        "task": draw(st.sampled_from(TASKS)),
        "usage": draw(
            st.none()
            | st.builds(
                Usage,
                input_tokens=st.integers(0, 2**53),
                cost_usd=st.floats(0, 1e15),
                memory_bytes=st.integers(0, 2**40),
            )
        ),
    }
    return ActionEvent.model_validate(fields)


def sessions(session: str = "s1", max_size: int = 40) -> st.SearchStrategy[list[ActionEvent]]:
    """The events of one session in the order in which they arrive; each comes once, as the engine sees to."""
    return st.lists(events(session), max_size=max_size, unique_by=lambda e: e.event_id)


@cache
def long_session(length: int, seed: int = 7) -> tuple[ActionEvent, ...]:
    """A session of varied events, without Hypothesis: the same for the same seed."""
    choose = random.Random(seed)
    made = []
    for number in range(length):
        outcome = choose.choice(tuple(Outcome))
        made.append(
            ActionEvent(
                event_id=f"e{number}",
                kind=choose.choice((Kind.PROPOSED, Kind.COMPLETED, Kind.COMPLETED, Kind.MODEL_TURN)),
                session_id="long",
                time=T0_MS + number * 997 + choose.randrange(-60_000, 1_000),
                call_id=choose.choice((None, f"c{number % 500}", f"lost{number}")),
                action=choose.choice((*ACTIONS, f"tool_{number % 5000}")),
                targets=[f"asset_id={choose.randrange(3000)}"],
                outcome=outcome,
                error=f"failed with {choose.choice('abcdefgh')} at {number}" if outcome is Outcome.ERROR else None,
                args={"command": choose.choice(COMMANDS)},
                output_bytes=choose.randrange(10**6),
                usage=Usage(input_tokens=choose.randrange(10**6), cost_usd=choose.random()),
            )
        )
    return tuple(made)
