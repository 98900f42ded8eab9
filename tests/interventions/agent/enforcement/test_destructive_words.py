from typing import Any

import pytest

from haltline.detectors.commands import prefilter
from haltline.interventions.agent import Effect, Level
from haltline.interventions.agent.testing import ScriptedGuard
from haltline.schemas.events import Kind
from tests.interventions.agent.attempts import attempt, of

DESTROYING_COMMANDS = (
    "rm -rf /data/x",
    "ls\nrm -rf /data/x",
    "r'm' -rf /data/x",
    "find /data -name x -delete",
    "python -c 'import shutil; shutil.rmtree(\"/data/x\")'",
    "DROP TABLE fact_sales",
    "git push --force",
    "kubectl delete pod x",
    "aws s3 rb s3://x",
    "dd if=/dev/zero of=/dev/sda",
)


def verdict_flags(guard: ScriptedGuard) -> list[bool]:
    return [event.await_verdict for event in of(guard, Kind.PROPOSED)]


@pytest.mark.parametrize(
    ("action", "args", "waits"),
    [
        pytest.param("delete_asset", {"asset_id": "a"}, True, id="a name that destroys"),
        pytest.param("bash", {"command": "rm -rf /data/x"}, True, id="a command that destroys"),
        pytest.param("frobnicate", {"argv": ["rm", "-rf", "x"]}, True, id="a word of it in a list"),
        pytest.param("frobnicate", {"text": "x " * 200_000}, True, id="arguments that are cut"),
        pytest.param("bash", {"command": "ls -l form rmx"}, False, id="a command that does not"),
        pytest.param("frobnicate", {}, False, id="no arguments"),
        pytest.param("read_file", {"path": "how to delete.md"}, False, id="a name that only looks"),
    ],
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
