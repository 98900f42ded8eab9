import json
from pathlib import Path

import pytest

from haltline.interventions.agent import Guard, Refused
from haltline.interventions.agent.settings import CallMode
from haltline.interventions.agent.snapshots.repository import Repository
from haltline.interventions.agent.testing import ScriptedGuard
from haltline.schemas import native
from haltline.schemas.events import ActionEvent, Kind
from tests.interventions.agent.attempts import attempt, of, refusal
from tests.interventions.agent.snapshots import folders
from tests.interventions.agent.snapshots.folders import git, write

RESET = {"command": "git reset --hard"}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tree = folders.repository(tmp_path / "work", {"a.py": "one\n"})
    monkeypatch.chdir(tree)
    return tree


def resets(guard: Guard, tree: Path) -> list[str]:
    """Five calls that each discard work of the user: what is told, or the code of the refusal."""
    told = []
    for number in range(5):
        write(tree, {"a.py": f"by the user, {number}\n"})
        try:
            with guard.action("bash", args=RESET) as action:
                git(tree, "reset", "-q", "--hard")
                told.append("; ".join(advice.message for advice in action.advice))
        except Refused as refused:
            told.append(refused.code)
    return told


def test_a_forced_switch_leaves_a_snapshot(tree: Path) -> None:
    write(tree, {"a.py": "by the user\n"})
    assert attempt(Guard(mode="local"), "bash", args={"command": "git switch -f main"}) == "executed"
    assert len(Repository(str(tree)).snapshots()) == 1


def test_in_local_mode_nothing_is_lost_and_nobody_is_asked(tree: Path) -> None:
    told = resets(Guard(mode="local"), tree)
    snapshots = Repository(str(tree)).snapshots()
    assert len(snapshots) == 5
    for number, one in enumerate(reversed(snapshots)):
        assert told[number].startswith(f"snapshot taken: haltline undo {one.id} ")
        Repository(str(tree)).restore(one.id)
        assert (tree / "a.py").read_text() == f"by the user, {number}\n"


def test_work_that_no_snapshot_may_hold_is_asked_about(tree: Path) -> None:
    write(tree, {"id_rsa": "AKIA", "new.py": "by the user\n"})
    assert attempt(Guard(mode="local"), "bash", args={"command": "git clean -fd"}) == "severe_destruction"
    git(tree, "add", "-f", "id_rsa")
    git(tree, "commit", "-q", "-m", "with a key")
    write(tree, {"id_rsa": "changed"})
    assert attempt(Guard(mode="local"), "bash", args=RESET) == "severe_destruction"


def test_a_severe_act_that_loses_nothing_is_not_asked_about(tree: Path) -> None:
    write(tree, {"sub/a.py": "by the user\n", "sub/b.py": "by the user\n"})
    args = {"command": ["bash", "-c", "rm -rf *"]}
    assert attempt(Guard(mode="local"), "shell", args=args) == "executed"
    [snapshot] = Repository(str(tree)).snapshots()
    assert (snapshot.about.before, snapshot.about.files) == (" ".join(args["command"]), 3)
    assert attempt(Guard(mode="local", snapshots=False), "shell", args=args) == "severe_destruction"


def test_switched_off_the_call_counts_as_before(tree: Path) -> None:
    assert "session_killed_loop_guard" in resets(Guard(mode="local", snapshots=False), tree)
    assert Repository(str(tree)).snapshots() == []


def test_what_the_call_does_besides_is_asked_about(tree: Path) -> None:
    write(tree, {"a.py": "by the user\n"})
    refused = refusal(Guard(mode="local"), "bash", args={"command": "git reset --hard; dropdb prod"})
    assert "prod" in str(refused.decision and refused.decision.reason)


@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_the_worker_reads_what_is_kept_and_the_agent_reads_how_to_bring_it_back(tree: Path, mode: CallMode) -> None:
    write(tree, {"a.py": "by the user\n"})
    hints: list[str] = []
    guard = ScriptedGuard(mode=mode, on_advice=lambda advice: hints.append(advice.message))
    assert attempt(guard, "bash", args=RESET) == "executed"
    assert attempt(guard, "bash", args={"command": "git status"}) == "executed"
    [snapshot] = Repository(str(tree)).snapshots()
    assert hints == [f"snapshot taken: haltline undo {snapshot.id} brings back what this call discards (1 file)"]
    reset, status = of(guard, Kind.PROPOSED)
    kept = {"snapshot": snapshot.id, "targets": ["worktree=."], "lost": []}
    assert (json.loads(reset.to_json())["kept"], status.kept) == (kept, None)
    assert ActionEvent.model_validate_json(reset.to_json()) == reset
    assert native.read(reset.to_json()) is None, "pydantic reads it"


def test_a_tool_that_deletes_files_leaves_them_in_a_snapshot(tree: Path) -> None:
    write(tree, {"new.py": "by the user\n"})
    guard = ScriptedGuard()
    attempt(guard, "delete_file", args={"target_file": "new.py", "explanation": "not needed"})
    attempt(guard, "Write", args={"file_path": "mine.py", "content": "rm\n"})
    assert [one.about.before for one in Repository(str(tree)).snapshots()] == ["delete_file"]
