from collections.abc import Sequence

import orjson
import pytest
from pydantic import TypeAdapter

from haltline.detectors.features.observation import CallTracker, Observation
from haltline.detectors.features.ownership import MAX_TARGETS, Ownership
from haltline.detectors.features.tool_classifier import Classifier
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Policy
from tests.builders import bash, call, delete, event

CLASSIFIER = Classifier(Policy())


def run(*events: ActionEvent) -> tuple[list[str], CallTracker]:
    """What the last event would take away from somebody, and what is remembered then."""
    calls = CallTracker()
    losses: list[str] = []
    for e in events:
        phase, known = calls.phase(e)
        act = Observation(e, classifier=CLASSIFIER, phase=phase, call=known, calls=calls)
        losses = [loss.target for loss in act.losses]
        calls.note(act)
    return losses, calls


def shell(*commands: str) -> list[ActionEvent]:
    return [bash(second, command) for second, command in enumerate(commands)]


@pytest.mark.parametrize(
    ("events", "lost"),
    [
        pytest.param(shell("rm data.csv"), ["path=data.csv"], id="a file that was there"),
        pytest.param(shell("cat > t.py <<E\nx\nE", "rm t.py"), [], id="a file that it wrote"),
        pytest.param(shell("touch a b", "rm a b c"), ["path=c"], id="two that it made and one that it did not"),
        pytest.param(shell("mkdir -p w/x", "rm -rf w/x/y"), [], id="in a folder that it made"),
        pytest.param(shell("mkdir w/x", "rm -rf w"), ["path=w"], id="the folder around what it made"),
        pytest.param(shell("mkdir w", "rm -rf wx"), ["path=wx"], id="a name that begins alike"),
        pytest.param(shell("touch t.py", "cd /testbed && rm t.py"), [], id="made by its relative path"),
        pytest.param(
            [event(0, "Write", args={"file_path": "/testbed/t.py"}), bash(1, "rm t.py")],
            [],
            id="made by its absolute path",
        ),
        pytest.param(
            [bash(0, "mkdir /home/u/app/y"), event(1, "rm_tree", args={"path": "/home/u/app/y"}, effect="destructive")],
            [],
            id="made by the shell, removed by an argument",
        ),
        pytest.param(
            [bash(0, "cd /home/u/app && mkdir y"), event(1, "delete_directory", args={"directory": "/home/u/app/y/"})],
            [],
            id="made below a folder, removed by an argument",
        ),
        pytest.param(
            [bash(0, "mkdir /home/u/app/y"), event(1, "rm_tree", args={"path": "/home/u/app/z"}, effect="destructive")],
            ["path=/home/u/app/z"],
            id="another one is removed by an argument",
        ),
        pytest.param(
            [
                bash(0, "mkdir -p /home/u/app/y"),
                event(1, "rm_tree", args={"path": "/home/u/app/y"}, effect="destructive"),
            ],
            ["path=/home/u/app/y"],
            id="it may have been there before",
        ),
        pytest.param(
            [bash(0, "mkdir /home/u/app/y"), event(1, "delete_files", args={"paths": ["/home/u/app/y/a", "/srv/b"]})],
            ["path=/srv/b"],
            id="several by an argument, one of them its own",
        ),
        pytest.param(
            [event(0, "createfile", args={"path": "/srv/t.py", "contents": "x"}), bash(1, "rm /srv/t.py")],
            [],
            id="made by an argument, removed by the shell",
        ),
        pytest.param(
            [event(0, "mkdir", args={"dir": "/home/u/app/y"}), bash(1, "rm -r /home/u/app/y")],
            [],
            id="a folder made by an argument",
        ),
        pytest.param(
            [
                event(0, "str_replace_editor", args={"command": "view", "path": "/srv/t.py"}),
                bash(1, "rm /srv/t.py"),
            ],
            ["path=/srv/t.py"],
            id="an editor only showed it",
        ),
        pytest.param(
            [event(0, "read_file", args={"path": "/srv/t.py"}), bash(1, "rm /srv/t.py")],
            ["path=/srv/t.py"],
            id="it only read it",
        ),
        pytest.param(shell("touch /a/t.py", "rm /b/t.py"), ["path=/b/t.py"], id="the same name elsewhere"),
        pytest.param(
            shell("rm data.csv", "touch data.csv", "rm data.csv"),
            ["path=data.csv"],
            id="somebody's first, then made again",
        ),
        pytest.param(
            [bash(0, "cp a b; false", "exit code 1"), bash(1, "rm b")],
            [],
            id="a program that failed in the end may have made it",
        ),
        pytest.param(
            [event(0, "Write", error="disk full", args={"file_path": "/a"}), bash(1, "rm /a")],
            ["path=/a"],
            id="writing it failed",
        ),
    ],
)
def test_what_the_session_made_is_its_own(events: Sequence[ActionEvent], lost: list[str]) -> None:
    assert run(*events)[0] == lost


@pytest.mark.parametrize(
    ("events", "lost"),
    [
        pytest.param(shell("rm out.db", "python gen.py", "rm out.db"), [], id="removed, and a program ran since"),
        pytest.param(shell("rm -f out.db && python gen.py", "rm -f out.db && python gen.py"), [], id="in one command"),
        pytest.param(shell("rm -rf proj", "./make_it", "rm -rf proj/sub"), [], id="below what it removed"),
        pytest.param(shell("rm out.db", "ls", "rm out.db"), ["path=out.db"], id="removed, and only looked since"),
        pytest.param(shell("rm out.db", "rm out.db"), ["path=out.db"], id="removed twice in a row"),
        pytest.param(
            [bash(0, "rm out.db", "rm: out.db: still exists"), *shell("ls", "python gen.py", "rm out.db")[1:]],
            ["path=out.db"],
            id="removing it failed",
        ),
        pytest.param(shell("rm a.db", "python gen.py", "rm b.db"), ["path=b.db"], id="another file"),
        pytest.param(
            [delete(0), event(1, "run_code", args={"code": "x"}), delete(2)],
            ["asset_id=fact_sales"],
            id="an asset is somebody's, whatever runs",
        ),
    ],
)
def test_what_came_back_after_a_program_ran_is_its_own(events: Sequence[ActionEvent], lost: list[str]) -> None:
    assert run(*events)[0] == lost


@pytest.mark.parametrize(
    ("events", "lost"),
    [
        pytest.param(shell("git checkout a.py"), ["path=a.py"], id="somebody's changes"),
        pytest.param(shell("sed -i s/a/b/ a.py", "git checkout a.py"), [], id="its own changes"),
        pytest.param(shell("git checkout a.py", "git checkout a.py"), [], id="what it has undone before"),
        pytest.param(
            shell("sed -i s/a/b/ a.py", "git reset --hard"), ["worktree=."], id="everything, for the first time"
        ),
        pytest.param(shell("git reset --hard", "git reset --hard"), [], id="everything, once more"),
        pytest.param(shell("sed -i s/a/b/ a.py", "rm a.py"), ["path=a.py"], id="a file that it changed is not its own"),
    ],
)
def test_undoing_its_own_changes_is_no_loss(events: Sequence[ActionEvent], lost: list[str]) -> None:
    assert run(*events)[0] == lost


@pytest.mark.parametrize(
    ("events", "lost"),
    [
        pytest.param(shell("rm -rf node_modules /tmp/x a.pyc"), [], id="scratch"),
        pytest.param(shell("mkdir -p /srv/backups", "rm -rf /srv/backups"), ["path=/srv/backups"], id="a catastrophe"),
    ],
)
def test_how_bad_it_is_decides_first(events: Sequence[ActionEvent], lost: list[str]) -> None:
    assert run(*events)[0] == lost


def test_a_call_that_was_only_proposed_made_nothing() -> None:
    proposed, _ = call(0, "create_asset", "asset_id=a")
    assert run(proposed, delete(1, "asset_id=a"))[0] == ["asset_id=a"]


def test_it_is_bounded_and_comes_back_equal_from_json() -> None:
    commands = (f"touch f{n}; rm g{n}" for n in range(2 * MAX_TARGETS))
    belongings = run(*shell(*commands))[1].belongings
    assert (len(belongings.own), len(belongings.removed)) == (MAX_TARGETS, MAX_TARGETS)
    assert TypeAdapter(Ownership).validate_json(orjson.dumps(belongings)) == belongings
