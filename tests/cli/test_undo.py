"""`haltline undo`: the list of snapshots, a restore, and folders without any."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from haltline.cli.app import app
from haltline.interventions.agent.snapshots.repository import Repository, Specs
from tests.interventions.agent.snapshots import folders


def undo(*args: str) -> Result:
    return CliRunner().invoke(app, ["undo", *args], catch_exceptions=False)


def test_snapshots_are_listed_and_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = folders.repository(tmp_path / "work", {"sub/a.py": "one\n"})
    monkeypatch.chdir(tree / "sub")
    assert "no snapshots" in undo().output
    folders.write(tree, {"sub/a.py": "by the user\n"})
    repository = Repository(str(tree))
    snapshot = repository.keep(repository.look(Specs(()), lambda _: False), before="git reset --hard", session="s1")
    folders.write(tree, {"sub/a.py": "one\n"})
    listed = undo()
    assert (snapshot in listed.output, "git reset --hard" in listed.output) == (True, True)
    assert [one["id"] for one in json.loads(undo("--json").stdout)] == [snapshot]
    assert f"restored {snapshot}: 1 file put back; what" in undo(snapshot[:6]).output
    assert (tree / "sub/a.py").read_text() == "by the user\n"


def test_a_stash_that_is_put_back_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = folders.repository(tmp_path / "work", {"a.py": "one\n"})
    monkeypatch.chdir(tree)
    folders.write(tree, {"a.py": "by the user\n"})
    folders.git(tree, "stash", "-q")
    repository = Repository(str(tree))
    lost = repository.look(Specs((), changes=False, stashes=True), lambda _: False)
    snapshot = repository.keep(lost, before="git stash drop")
    folders.git(tree, "stash", "drop", "-q")
    assert f"restored {snapshot}: 1 stash put back; what" in undo(snapshot).output


def test_what_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert undo().exit_code == 2
    monkeypatch.chdir(folders.repository(tmp_path / "work", {}))
    unknown = undo("0000")
    assert (unknown.exit_code, "expected the id of a snapshot" in unknown.output) == (1, True)
