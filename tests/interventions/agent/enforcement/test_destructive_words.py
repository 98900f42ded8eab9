from typing import Any

import pytest

from haltline.detectors.commands import prefilter
from haltline.interventions.agent import Effect, GuardSettings, Level, Refused
from haltline.interventions.agent.testing import ScriptedGuard
from haltline.schemas.events import Kind
from tests.interventions.agent.stand_in import third_delete_kills

DESTROYING_COMMANDS = (
    "rm -rf /data/x",
    "ls\nrm -rf /data/x",
    "r'm' -rf /data/x",
    "r\\m -rf /data/x",
    "find /data -name x -delete",
    "python -c 'import shutil; shutil.rmtree(\"/data/x\")'",
    "node -e 'fs.rmSync(\"/data/x\")'",
    "DROP TABLE fact_sales",
    "TRUNCATE fact_sales",
    "git push --force",
    "git reset --hard",
    "kubectl delete pod x",
    "docker volume prune",
    "aws s3 rb s3://x",
    "redis-cli FLUSHALL",
    "dd if=/dev/zero of=/dev/sda",
    "mkfs.ext4 /dev/sda1",
)


def ran(guard: ScriptedGuard, times: int, action: str, **args: Any) -> int:
    executed = 0
    for _ in range(times):
        try:
            with guard.action(action, args=args):
                executed += 1
        except Refused:
            pass
    return executed


def verdict_flags(guard: ScriptedGuard) -> list[bool]:
    return [event.await_verdict for event in guard.events if event.kind is Kind.PROPOSED]


def test_a_fast_loop_of_deletes_in_mode_async_ends_at_the_third() -> None:
    guard = ScriptedGuard(*[third_delete_kills()] * 8, mode="async")
    assert ran(guard, 8, "delete_asset", asset_id="fact_sales") == 2
    assert guard.killed


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
    assert ran(guard, 1, action, **args) == 1
    assert verdict_flags(guard) == [waits]


@pytest.mark.parametrize("command", DESTROYING_COMMANDS)
def test_a_command_that_the_worker_has_to_read_is_checked(command: str) -> None:
    guard = ScriptedGuard(Level.BLOCK, mode="async")
    assert prefilter.may_destroy(command)
    assert ran(guard, 1, "bash", command=command) == 0


def test_without_a_verdict_the_fail_policy_goes_by_the_effect() -> None:
    guard = ScriptedGuard(*[None] * 4, mode="async", budget_s=0.01)
    assert ran(guard, 1, "delete_asset", asset_id="a") == 0
    assert ran(guard, 1, "bash", command="rm -rf x") == 1


@pytest.mark.parametrize(
    ("options", "call"),
    [
        pytest.param({"ask_from": None}, {}, id="for the guard"),
        pytest.param({}, {"mode": "async"}, id="for the call"),
    ],
)
def test_the_author_can_turn_it_off(options: dict[str, Any], call: dict[str, Any]) -> None:
    guard = ScriptedGuard(None, mode="async", budget_s=60.0, **options)
    with guard.action("delete_asset", args={"asset_id": "a"}, **call):
        pass
    assert verdict_flags(guard) == [False]


def test_the_line_can_be_moved() -> None:
    guard = ScriptedGuard(mode="async", ask_from=Effect.MUTATE)
    with guard.action("tidy", effect="mutate"), guard.action("tidy", effect="write"):
        pass
    assert verdict_flags(guard) == [True, False]


def test_the_environment_turns_it_off_by_none() -> None:
    result = {"HALTLINE_ASK_FROM": "none", "HALTLINE_FAIL_CLOSED_FROM": "none", "HALTLINE_BOOTSTRAP": "k:9092"}
    settings = GuardSettings.from_env(result)
    assert (settings.ask_from, settings.fail_closed_from) == (None, None)
    assert GuardSettings.from_env(result | {"HALTLINE_ASK_FROM": "exec"}).ask_from is Effect.EXEC
