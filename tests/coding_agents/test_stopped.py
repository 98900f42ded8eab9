"""Coding agents from npm end their turn when they are stopped, and stay stopped, while a model of ours goes on."""

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import cases
from tests.coding_agents.agents import (
    CLAUDE_CODE,
    CLAUDE_CODE_OF_MAY,
    CODEX,
    GEMINI_CLI,
    OPENCODE,
    Agent,
    Done,
    Home,
)

pytestmark = pytest.mark.wide
DELETE = "kubectl delete configmap customer-data"
CAUSE = "3 deletes on k8s=configmap/customer-data in "
RELEASE = re.compile(r"haltline hook release ([\w-]+)")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, for the path of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="hl", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name)


def released_by(done: Done) -> str:
    """The session that the user is told to release."""
    found = RELEASE.search(done.stdout + done.stderr)
    assert found is not None, done.stdout + done.stderr
    return found[1]


@cases(
    "agent, turns, code",
    {
        "claude code, which says so with `terminal_reason`": (CLAUDE_CODE, 3, 0),
        "claude code of half a year ago": (CLAUDE_CODE_OF_MAY, 3, 0),
        "codex, at the call after the one that is refused": (CODEX, 4, 1),
        "gemini cli": (GEMINI_CLI, 3, 0),
        "opencode": (OPENCODE, 3, 1),
    },
)
def test_a_killed_agent_ends_says_why_and_stays_stopped_until_a_person_releases_it(
    folder: Path, agent: Agent, turns: int, code: int
) -> None:
    home = Home(folder, agent)
    model = agent.model(DELETE, calls=9)
    done = home.run(model)
    assert (len(model.turns), home.calls_made(), done.returncode) == (turns, 2, code), done.stdout + done.stderr
    assert CAUSE in done.stderr
    session = released_by(done)
    if agent in (CLAUDE_CODE, CLAUDE_CODE_OF_MAY):
        assert json.loads(done.stdout)["terminal_reason"] == "hook_stopped"
    home.end_service()

    model = agent.model("ls", calls=9)
    again = home.run(model, "Now list the files", session)
    assert (len(model.turns), CAUSE in again.stdout + again.stderr) == (0, True), again.stdout + again.stderr

    home.release(session)
    model = agent.model("ls", calls=1)
    done = home.run(model, "Now list the files", session)
    assert (len(model.turns), done.returncode) == (2, 0), done.stdout + done.stderr
    home.end_service()


def test_one_delete_in_each_of_several_runs_of_one_session_is_a_loop(folder: Path) -> None:
    home = Home(folder, CLAUDE_CODE)
    session = ""
    for _ in range(4):
        done = home.run(CLAUDE_CODE.model(DELETE, calls=1), session=session)
        session = session or json.loads(done.stdout)["session_id"]
        home.end_service()
    assert home.calls_made() == 2
    assert CAUSE in json.loads(done.stdout)["result"]


def test_a_held_agent_without_a_person_stays_held_whatever_its_next_prompt_says(folder: Path) -> None:
    home = Home(folder, CLAUDE_CODE_OF_MAY)
    model = CLAUDE_CODE_OF_MAY.model("python3 missing.py", calls=40)
    done = home.run(model, "Run the program")
    assert (json.loads(done.stdout)["terminal_reason"], len(model.turns) < 12) == ("hook_stopped", True)
    assert "haltline holds this session since" in done.stderr
    home.end_service()
    model = CLAUDE_CODE_OF_MAY.model("ls", calls=9)
    home.run(model, "List the files instead", released_by(done))
    assert len(model.turns) == 0
    home.end_service()
