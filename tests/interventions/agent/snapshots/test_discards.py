from typing import Any

from haltline.interventions.agent.snapshots.discards import Work, discards
from haltline.schemas.events import ActionEvent, Kind
from tests.builders import cases

CHANGES, STASHES = Work.CHANGES, Work.STASHES
FILES = Work.CHANGES | Work.UNTRACKED | Work.IGNORED | Work.REMOVED
WHOLE = "/repo/sub (whole)"


def found(action: str, args: dict[str, Any]) -> dict[str, Work]:
    """What a call in /repo/sub discards, by path."""
    event = ActionEvent(
        event_id="e", kind=Kind.PROPOSED, session_id="s", time=1_700_000_000_000, action=action, args=args
    )
    found = discards(event, "/repo/sub")
    return {f"{one.path} (whole)" if one.is_whole else one.path: one.work for one in found}


@cases(
    "command, expected",
    {
        "a hard reset": ("git reset --hard", {WHOLE: CHANGES}),
        "a checkout of all": ("git checkout -- .", {WHOLE: CHANGES}),
        "a checkout of one file": ("git checkout -- a.py", {"/repo/sub/a.py": CHANGES}),
        "a switch": ("git checkout main", {}),
        "a restore": ("git restore a.py b.py", {"/repo/sub/a.py": CHANGES, "/repo/sub/b.py": CHANGES}),
        "a restore of the index only": ("git restore --staged a.py", {}),
        "a clean": ("git clean -fd", {WHOLE: Work.UNTRACKED}),
        "a clean of ignored files": ("git clean -fdx", {WHOLE: Work.UNTRACKED | Work.IGNORED | Work.REMOVED}),
        "a clean that only tells": ("git clean -nd", {}),
        "a dropped stash": ("git stash drop", {WHOLE: STASHES}),
        "what is stashed and then dropped": (
            "git stash && git stash drop",
            {WHOLE: STASHES | CHANGES | Work.UNTRACKED},
        ),
        "what is popped and then discarded": ("git stash pop; git checkout .", {WHOLE: CHANGES | STASHES}),
        "what is added and then discarded": ("git add . && git reset --hard", {WHOLE: CHANGES | Work.UNTRACKED}),
        "a removed folder": ("rm -rf src", {"/repo/sub/src": FILES}),
        "files by a pattern": ("rm *.py", {"/repo/sub/*.py": FILES}),
        "files that find finds": ("find . -name x -delete", {"/repo/sub/**/x": FILES}),
        "in another folder": ("cd ../b && git checkout .", {"/repo/b (whole)": CHANGES}),
        "in a folder by an option": ("git -C /x reset --hard", {"/x (whole)": CHANGES}),
        "beside another act": ("rm a.py; aws s3 rb s3://x", {"/repo/sub/a.py": FILES}),
        "what only the shell knows": ("rm -rf $X $(ls)", {}),
        "on another host": ("ssh h 'rm -rf src'", {}),
        "in a container": ("docker exec c rm -rf /repo/sub/src", {}),
        "beside a container": ("docker exec c rm -rf /repo/sub/x; rm y", {"/repo/sub/y": FILES}),
        "on another host, within a shell": ("bash -c 'cd x; ssh h rm -rf src'; rm y", {"/repo/sub/y": FILES}),
        "in a repository by an option": ("git --work-tree=/y reset --hard", {}),
        "a branch": ("git branch -D x", {}),
    },
)
def test_a_command_discards_work_of_these_paths(command: str, expected: dict[str, Work]) -> None:
    assert found("bash", {"command": command}) == expected


@cases(
    "action, args, expected",
    {
        "a tool that deletes": ("delete_file", {"target_file": "a.py"}, {"/repo/sub/a.py": FILES}),
        "a tool with a folder of its own": ("bash", {"command": "rm a", "cwd": "/x"}, {"/x/a": FILES}),
        "a tool for something else": ("delete_asset", {"asset_id": "a.py"}, {}),
        "a tool that writes": ("Write", {"file_path": "/repo/a.sh", "content": "rm -rf src"}, {}),
        "a tool that runs a statement": ("run_sql", {"query": "DROP TABLE t"}, {}),
    },
)
def test_a_tool_discards_work_of_these_paths(action: str, args: dict[str, Any], expected: dict[str, Work]) -> None:
    assert found(action, args) == expected
