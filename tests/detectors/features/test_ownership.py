from collections.abc import Sequence

import msgspec

from haltline.detectors.features.observation import CallTracker
from haltline.detectors.features.ownership import MAX_TARGETS, Ownership
from haltline.schemas.events import ActionEvent, Outcome
from tests.builders import bash, call, delete, event, observed
from tests.cases import cases


def run(*events: ActionEvent) -> tuple[list[str], CallTracker]:
    """What the last event would take away from somebody, and what is remembered then."""
    calls = CallTracker()
    *_, last = observed(*events, calls=calls)
    return [loss.target for loss in last.losses], calls


def rm_tree(path: str) -> ActionEvent:
    return event(1, "rm_tree", args={"path": path}, effect="destructive")


def shell(*commands: str) -> list[ActionEvent]:
    return [bash(second, command) for second, command in enumerate(commands)]


@cases(
    "events, lost",
    {
        "a file that was there": (shell("rm data.csv"), ["path=data.csv"]),
        "a file that it wrote": (shell("cat > t.py <<E\nx\nE", "rm t.py"), []),
        "two that it made and one that it did not": (shell("touch a b", "rm a b c"), ["path=c"]),
        "in a folder that it made": (shell("mkdir -p w/x", "rm -rf w/x/y"), []),
        "the folder around what it made": (shell("mkdir w/x", "rm -rf w"), ["path=w"]),
        "a name that begins alike": (shell("mkdir w", "rm -rf wx"), ["path=wx"]),
        "made by its relative path": (shell("touch t.py", "cd /testbed && rm t.py"), []),
        "made by its absolute path": ([event(0, "Write", args={"file_path": "/testbed/t.py"}), bash(1, "rm t.py")], []),
        "made by the shell, removed by an argument": ([bash(0, "mkdir /home/u/app/y"), rm_tree("/home/u/app/y")], []),
        "made below a folder, removed by an argument": (
            [bash(0, "cd /home/u/app && mkdir y"), event(1, "delete_directory", args={"directory": "/home/u/app/y/"})],
            [],
        ),
        "another one is removed by an argument": (
            [bash(0, "mkdir /home/u/app/y"), rm_tree("/home/u/app/z")],
            ["path=/home/u/app/z"],
        ),
        "it may have been there before": (
            [bash(0, "mkdir -p /home/u/app/y"), rm_tree("/home/u/app/y")],
            ["path=/home/u/app/y"],
        ),
        "several by an argument, one of them its own": (
            [bash(0, "mkdir /home/u/app/y"), event(1, "delete_files", args={"paths": ["/home/u/app/y/a", "/srv/b"]})],
            ["path=/srv/b"],
        ),
        "made by an argument, removed by the shell": (
            [event(0, "createfile", args={"path": "/srv/t.py", "contents": "x"}), bash(1, "rm /srv/t.py")],
            [],
        ),
        "a folder made by an argument": (
            [event(0, "mkdir", args={"dir": "/home/u/app/y"}), bash(1, "rm -r /home/u/app/y")],
            [],
        ),
        "an editor only showed it": (
            [event(0, "str_replace_editor", args={"command": "view", "path": "/srv/t.py"}), bash(1, "rm /srv/t.py")],
            ["path=/srv/t.py"],
        ),
        "it only read it": ([event(0, "read_file", args={"path": "/a"}), bash(1, "rm /a")], ["path=/a"]),
        "the same name elsewhere": (shell("touch /a/t.py", "rm /b/t.py"), ["path=/b/t.py"]),
        "somebody's first, then made again": (shell("rm data.csv", "touch data.csv", "rm data.csv"), ["path=data.csv"]),
        "a program that failed in the end may have made it": (
            [bash(0, "cp a b; false", "exit 1"), bash(1, "rm b")],
            [],
        ),
        "making it was refused": (
            [event(0, "create_asset", "asset_id=a", outcome=Outcome.REFUSED), delete(1, "asset_id=a")],
            ["asset_id=a"],
        ),
        "writing it failed": (
            [event(0, "Write", error="disk full", args={"file_path": "/a"}), bash(1, "rm /a")],
            ["path=/a"],
        ),
        "scratch": (shell("rm -rf node_modules /tmp/x a.pyc"), []),
        "a catastrophe": (shell("mkdir -p /srv/backups", "rm -rf /srv/backups"), ["path=/srv/backups"]),
        # what came back after a program ran is its own
        "removed, and a program ran since": (shell("rm out.db", "python gen.py", "rm out.db"), []),
        "in one command": (shell("rm -f out.db && python gen.py", "rm -f out.db && python gen.py"), []),
        "below what it removed": (shell("rm -rf proj", "./make_it", "rm -rf proj/sub"), []),
        "removed, and only looked since": (shell("rm out.db", "ls", "rm out.db"), ["path=out.db"]),
        "removed twice in a row": (shell("rm out.db", "rm out.db"), ["path=out.db"]),
        "removing it failed": (
            [bash(0, "rm out.db", "rm: out.db: still exists"), *shell("ls", "python gen.py", "rm out.db")[1:]],
            ["path=out.db"],
        ),
        "another file": (shell("rm a.db", "python gen.py", "rm b.db"), ["path=b.db"]),
        "an asset is somebody's, whatever runs": (
            [delete(0), event(1, "run_code", args={"code": "x"}), delete(2)],
            ["asset_id=fact_sales"],
        ),
        # undoing its own changes is no loss
        "somebody's changes": (shell("git checkout a.py"), ["path=a.py"]),
        "its own changes": (shell("sed -i s/a/b/ a.py", "git checkout a.py"), []),
        "what it has undone before": (shell("git checkout a.py", "git checkout a.py"), []),
        "everything, for the first time": (shell("sed -i s/a/b/ a.py", "git reset --hard"), ["worktree=."]),
        "everything, once more": (shell("git reset --hard", "git reset --hard"), ["worktree=."]),
        "what it has done since": (shell("git reset --hard", "sed -i s/a/b/ a.py", "git reset --hard"), []),
        "its last commit, once more": (shell("git reset --hard HEAD~1", "git reset --hard HEAD^"), []),
        "a file that it changed is not its own": (shell("sed -i s/a/b/ a.py", "rm a.py"), ["path=a.py"]),
    },
)
def test_what_is_somebody_s_and_what_is_the_session_s_own(events: Sequence[ActionEvent], lost: list[str]) -> None:
    assert run(*events)[0] == lost


def test_what_was_only_proposed_made_nothing_and_all_is_bounded_and_comes_back_from_json() -> None:
    proposed, _ = call(0, "create_asset", "asset_id=a")
    assert run(proposed, delete(1, "asset_id=a"))[0] == ["asset_id=a"]
    commands = (f"touch f{n}; rm g{n}" for n in range(2 * MAX_TARGETS))
    belongings = run(*shell(*commands))[1].belongings
    assert (len(belongings.own), len(belongings.removed)) == (MAX_TARGETS, MAX_TARGETS)
    assert msgspec.json.decode(msgspec.json.encode(belongings), type=Ownership) == belongings
