"""A call whose text takes minutes to read is answered by what it may destroy, and other sessions by their verdicts."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from haltline.interventions.agent.integrations.claude_code.hooks import Sessions
from haltline.interventions.agent.integrations.hooks.handler import HookHandler
from haltline.interventions.agent.integrations.hooks.installed import Installed
from haltline.interventions.agent.integrations.hooks.stored import Stored
from haltline.interventions.agent.service import limited
from haltline.interventions.agent.service.limited import Limited, Overdue
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.transport import local_decider
from tests.streams.engine.test_plugins import install

DETECTOR = """
import re
from dataclasses import dataclass
from typing import ClassVar

from haltline.detectors.framework.base import Detector
from haltline.schemas.events import Kind


@dataclass(slots=True)
class State:
    events: int = 0


class Hangs(Detector[State]):
    id: ClassVar[str] = "hangs"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.PROPOSED})

    def observe(self, state, act):
        state.events += 1
        if act.action == "hangs":
            re.match(r"(a+)+$", "a" * 64 + "b")
"""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited, "LIMIT_S", 1.0)


def _hangs(*_: object) -> NoReturn:
    re.match(r"(a+)+$", "a" * 64 + "b")
    raise AssertionError("it was read")


@pytest.fixture
def handler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HookHandler:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "hangs_package", DETECTOR, "hangs = hangs_package:Hangs")
    settings = GuardSettings(mode="local", policy={"rules": {"hangs": {}}})
    return HookHandler(
        lambda _, earlier: Sessions(settings, is_local=True, earlier=earlier),
        Stored(tmp_path / "stored"),
        Installed({}),
    )


def call(session_id: str, number: int, tool: str, **args: Any) -> bytes:
    hook = {"session_id": session_id, "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": args}
    return json.dumps(hook | {"tool_use_id": f"{session_id}-{number}"}).encode()


def replies(handler: HookHandler, *calls: bytes) -> list[str]:
    """What becomes of calls that are made at the same time."""

    async def run() -> list[bytes]:
        return await asyncio.gather(*(handler.reply("claude-code", one) for one in calls))

    return ["refused" if b'"deny"' in reply else "runs" for reply in asyncio.run(run())]


def test_what_is_not_judged_in_time_is_refused_if_it_may_destroy_and_all_others_are_judged(
    handler: HookHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_decider, "effect_of", _hangs)
    calls = [
        call("a", 1, "hangs", command="rm -rf /srv/x"),
        call("b", 1, "hangs", command="ls"),
        call("c", 1, "delete_asset", asset_id="1"),
    ]
    assert replies(handler, *calls) == ["refused", "runs", "runs"]
    assert replies(handler, call("c", 2, "delete_asset", asset_id="1")) == ["runs"]
    assert replies(handler, call("c", 3, "delete_asset", asset_id="1")) == ["refused"]


def test_the_session_of_such_a_call_goes_on_with_the_counts_before_it(handler: HookHandler) -> None:
    deletes = [call("a", number, "delete_asset", asset_id="1") for number in range(3)]
    assert replies(handler, deletes[0]) == ["runs"]
    assert replies(handler, deletes[1]) == ["runs"]
    assert replies(handler, call("a", 7, "hangs", command="ls")) == ["runs"]
    assert replies(handler, deletes[2]) == ["refused"]


async def _waits() -> str:
    await asyncio.sleep(0.3)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()
    return "done"


async def _raises() -> str:
    await asyncio.sleep(0)
    raise KeyError("x")


async def _reads() -> str:
    await asyncio.sleep(0)
    _hangs()


@pytest.mark.parametrize(
    ("work", "ends"),
    [(_waits, None), (_raises, KeyError), (_reads, Overdue)],
    ids=["waiting does not count", "an error is raised", "a step that takes too long is interrupted"],
)
def test_a_coroutine_runs_as_without_a_limit_up_to_it(
    work: Callable[[], Any], ends: type[BaseException] | None
) -> None:
    async def run() -> str:
        return await Limited(work())

    if ends is None:
        assert asyncio.run(run()) == "done"
    else:
        with pytest.raises(ends):
            asyncio.run(run())
