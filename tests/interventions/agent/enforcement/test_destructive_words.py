from typing import Any

import pytest

from haltline.detectors.commands import prefilter
from haltline.interventions.agent import Effect, Level
from haltline.interventions.agent.testing import ScriptedGuard
from haltline.schemas.events import Kind
from tests.builders import cases
from tests.interventions.agent.attempts import attempt, of

DESTROYING_COMMANDS = (
    "rm -rf /data/x",
    "ls\nrm -rf /data/x",
    "python -c 'import shutil; shutil.rmtree(\"/data/x\")'",
    "DROP TABLE fact_sales",
)


def verdict_flags(guard: ScriptedGuard) -> list[bool]:
    return [event.await_verdict for event in of(guard, Kind.PROPOSED)]


@cases(
    "action, args, waits",
    {
        "a name that destroys": ("delete_asset", {"asset_id": "a"}, True),
        "a command that destroys": ("bash", {"command": "rm -rf /data/x"}, True),
        "a word of it in a list": ("frobnicate", {"argv": ["rm", "-rf", "x"]}, True),
        "arguments that are cut": ("frobnicate", {"text": "x " * 200_000}, True),
        "a command that does not": ("bash", {"command": "ls -l form rmx"}, False),
        "no arguments": ("frobnicate", {}, False),
        "a name that only looks": ("read_file", {"path": "how to delete.md"}, False),
    },
)
def test_in_mode_async_a_call_waits_when_it_may_destroy(action: str, args: dict[str, Any], waits: bool) -> None:
    guard = ScriptedGuard(mode="async")
    assert attempt(guard, action, args=args) == "executed"
    assert verdict_flags(guard) == [waits]


@pytest.mark.parametrize("command", DESTROYING_COMMANDS)
def test_a_command_that_the_worker_has_to_read_is_checked(command: str) -> None:
    assert prefilter.may_destroy(command)
    guard = ScriptedGuard(Level.BLOCK, mode="async")
    assert attempt(guard, "bash", args={"command": command}) == "block"


def test_the_author_can_turn_it_off_or_move_the_line() -> None:
    off = ScriptedGuard(None, mode="async", budget_s=60.0, ask_from=None)
    of_the_call = ScriptedGuard(None, mode="async", budget_s=60.0)
    assert [attempt(off, "delete_asset"), attempt(of_the_call, "delete_asset", mode="async")] == ["executed"] * 2
    assert verdict_flags(off) == verdict_flags(of_the_call) == [False]
    moved = ScriptedGuard(mode="async", ask_from=Effect.MUTATE)
    assert [attempt(moved, "tidy", effect=effect) for effect in ("mutate", "write")] == ["executed"] * 2
    assert verdict_flags(moved) == [True, False]
