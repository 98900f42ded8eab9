import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import which

import pytest

from haltline.interventions.agent.calls.call_gate import wait
from haltline.interventions.agent.checkpoints import CannotRestore
from haltline.interventions.agent.checkpoints.git_commands import GitFailed
from haltline.interventions.agent.snapshots import before_call, repository
from haltline.interventions.agent.snapshots.before_call import Looked, look
from haltline.interventions.agent.snapshots.own_files import OwnFiles
from haltline.interventions.agent.snapshots.repository import Repository
from haltline.schemas.events import ActionEvent, Kind
from tests.builders import cases, some
from tests.interventions.agent.snapshots import folders
from tests.interventions.agent.snapshots.folders import git, state, write

NOTHING = "nothing would be lost"
UNKNOWN = "as without"
ASKS = "a person is asked"
COMMITTED: dict[str, str | bytes] = {
    "a.py": "one\n",
    "src/b.py": "two\n",
    "src/c.bin": b"\0\xff\r\n",
    ".gitignore": "*.log\nbuild/\n",
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(before_call, "LOOK_S", 60.0)  # on a busy machine
    tree = folders.repository(tmp_path / "work", {"a.py": "zero\n"})
    write(tree, COMMITTED)
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "second")
    return tree


def looked(command: str, folder: Path, own: OwnFiles | None = None) -> Looked | None:
    args = {"command": command}
    event = ActionEvent(
        event_id="e", kind=Kind.PROPOSED, session_id="s1", time=1_700_000_000_000, action="bash", args=args
    )
    steps = look(event, str(folder), "s1", own or OwnFiles())
    try:
        while True:
            future, wait_s = next(steps)
            wait(future, wait_s)
    except StopIteration as done:
        result: Looked | None = done.value
        return result


def outcome(command: str, folder: Path) -> str:
    """What is told of a call: `UNKNOWN`, `ASKS`, `NOTHING`, or the id of its snapshot."""
    found = looked(command, folder)
    if found is None:
        return UNKNOWN
    return ASKS if found.kept.lost else found.kept.snapshot or NOTHING


def run(command: str, folder: Path) -> None:
    subprocess.run(command, shell=True, cwd=folder, check=True, capture_output=True)


def modified(tree: Path) -> None:
    write(tree, {"a.py": "changed by the user\n", "src/c.bin": b"\0\1\r\n\xfe"})


def staged(tree: Path) -> None:
    write(tree, {"a.py": "staged\n", "src/new.py": "new, and staged\n"})
    git(tree, "add", ".")
    write(tree, {"a.py": "changed after that\n"})


def deleted(tree: Path) -> None:
    (tree / "a.py").unlink()
    git(tree, "rm", "-q", "src/b.py")


def renamed(tree: Path) -> None:
    git(tree, "mv", "src/b.py", "src/moved.py")
    write(tree, {"src/moved.py": "moved and changed\n"})


def untracked(tree: Path) -> None:
    write(tree, {'src/deep/new \n"ä.py': b"\xff\r\n", "run.sh": "#!/bin/sh\n"})
    (tree / "run.sh").chmod(0o755)
    (tree / "src/link").symlink_to("../a.py")


def replaced(tree: Path) -> None:
    (tree / "a.py").unlink()
    (tree / "a.py").symlink_to("src/b.py")


def hidden(tree: Path) -> None:
    write(tree, {"src/b.py": "local settings\n"})
    git(tree, "update-index", "--assume-unchanged", "src/b.py")


def unmerged(tree: Path) -> None:
    for branch in ("other", "main"):
        git(tree, "checkout", "-q", "-B", branch, "main")
        write(tree, {"a.py": f"{branch}\n"})
        git(tree, "commit", "-q", "-a", "-m", branch)
    subprocess.run(["git", "merge", "-q", "other"], cwd=tree, check=False, capture_output=True)
    git(tree, "branch", "-q", "-f", "spare", "other")


def filtered(tree: Path) -> None:
    git(tree, "config", "core.autocrlf", "true")
    write(tree, {".gitattributes": "*.py text\n", "a.py": "mixed\r\nends\n"})


@cases(
    "before, command",
    {
        "modified files, also binary ones": (modified, "git reset --hard"),
        "modified files that are checked out": (modified, "git checkout -- ."),
        "a modified file that is removed": (modified, "rm a.py"),
        "a modified file that is removed from git": (modified, "git rm -q -f a.py"),
        "a modified file of which an old version is checked out": (modified, "git checkout HEAD~1 -- a.py"),
        "modified files, from a folder below": (modified, "cd src && git checkout .."),
        "staged files": (staged, "git reset --hard"),
        "deleted files": (deleted, "git reset --hard"),
        "renamed files": (renamed, "git reset --hard"),
        "untracked files that are cleaned": (untracked, "git clean -fd"),
        "untracked files that are removed": (untracked, "rm -rf src run.sh"),
        "untracked files that are added and discarded": (untracked, "git add . && git reset --hard"),
        "a link in the place of a file": (replaced, "git checkout ."),
        "a file that git was told not to look at": (hidden, "rm -r src"),
        "files in another form than in git": (filtered, "git checkout a.py"),
    },
)
def test_what_is_discarded_is_brought_back(tree: Path, before: Callable[[Path], None], command: str) -> None:
    before(tree)
    there = state(tree)
    snapshot = outcome(command, tree)
    run(command, tree)
    assert state(tree) != there
    write(tree, {"later.txt": "work after that\n"})
    Repository(str(tree)).restore(snapshot)
    (tree / "later.txt").unlink()
    assert state(tree) == there
    assert (before is not untracked) or os.access(tree / "run.sh", os.X_OK)


def test_a_conflict_is_brought_back_with_its_text(tree: Path) -> None:
    unmerged(tree)
    text = (tree / "a.py").read_text()
    snapshot = outcome("git reset --hard", tree)
    run("git reset --hard", tree)
    Repository(str(tree)).restore(snapshot)
    assert "<<<<<<<" in text
    assert (tree / "a.py").read_text() == text


def test_a_restore_keeps_what_is_there_and_can_be_undone(tree: Path) -> None:
    staged(tree)
    snapshot = outcome("git reset --hard", tree)
    run("git reset --hard", tree)
    write(tree, {"a.py": "other work\n", "src/new.py": "other new\n"})
    git(tree, "add", "a.py")
    there = state(tree)
    restored = Repository(str(tree)).restore(snapshot)
    assert restored.put_back == 2
    assert Repository(str(tree)).restore(restored.kept_as).put_back == 2
    assert state(tree) == there
    assert [one.about.before for one in Repository(str(tree)).snapshots()] == [
        f"haltline undo {restored.kept_as}",
        f"haltline undo {snapshot}",
        "git reset --hard",
    ]


def test_a_restore_changes_nothing_if_it_would_lose_something(tree: Path) -> None:
    untracked(tree)
    snapshot = outcome("git clean -fd", tree)
    run("git clean -fd", tree)
    write(tree, {"run.sh/inside": "in its place\n", "src/deep": "in the place of its folder\n"})
    there = state(tree)
    with pytest.raises(CannotRestore, match="nothing was changed"):
        Repository(str(tree)).restore(snapshot)
    with pytest.raises(CannotRestore, match="expected the id of a snapshot"):
        Repository(str(tree)).restore("0000")
    assert state(tree) == there


def test_stashes_are_brought_back(tree: Path) -> None:
    for text in ("first", "second"):
        write(tree, {"a.py": text})
        git(tree, "stash", "push", "-q", "-m", text)
    there = git(tree, "stash", "list")
    snapshot = outcome("git stash clear", tree)
    run("git stash clear; git reflog expire --expire=now --all; git gc -q --prune=now", tree)
    Repository(str(tree)).restore(snapshot)
    assert git(tree, "stash", "list") == there
    git(tree, "stash", "drop", "-q")
    Repository(str(tree)).restore(snapshot)
    assert len(git(tree, "stash", "list").splitlines()) == 2


def test_a_repository_without_a_commit_has_snapshots(tmp_path: Path) -> None:
    tree = folders.repository(tmp_path, {})
    write(tree, {"a.py": "new\n", "b.py": "staged\n"})
    git(tree, "add", "b.py")
    there = state(tree)
    snapshot = outcome("rm a.py b.py", tree)
    run("rm a.py b.py", tree)
    Repository(str(tree)).restore(snapshot)
    assert state(tree) == there


def test_a_linked_work_tree_has_the_snapshots_of_its_repository(tree: Path) -> None:
    other = tree.parent / "other"
    git(tree, "worktree", "add", "-q", str(other))
    write(other, {"a.py": "changed there\n"})
    snapshot = outcome("git checkout .", other)
    run("git checkout .", other)
    assert [one.id for one in Repository(str(tree)).snapshots()] == [snapshot]
    with pytest.raises(CannotRestore, match=f"expected the work tree {other}, got {tree}"):
        Repository(str(tree)).restore(snapshot)
    Repository(str(other)).restore(snapshot)
    assert (other / "a.py").read_text() == "changed there\n"


def ignored(tree: Path) -> None:
    write(tree, {"src/data.log": "the only copy\n", "build/out.o": "built\n"})


def ignored_and_new(tree: Path) -> None:
    ignored(tree)
    untracked(tree)


def with_secret(tree: Path) -> None:
    write(tree, {"src/.env": "TOKEN=x\n"})


def with_submodule(tree: Path) -> None:
    folders.repository(tree.parent / "module", {"m.py": "m\n"})
    git(tree, "submodule", "--quiet", "add", str(tree.parent / "module"), "src/module")
    git(tree, "commit", "-q", "-m", "with a module")
    write(tree, {"src/module/m.py": "changed in the module\n"})


def with_repository(tree: Path) -> None:
    folders.repository(tree / "src/own", {"x": "x\n"})


def too_many(tree: Path) -> None:
    write(tree, {f"src/{number}.txt": "x" for number in range(repository.MAX_FILES + 1)})


def too_large(tree: Path) -> None:
    with (tree / "src/large").open("wb") as file:
        file.truncate(repository.MAX_BYTES + 1)


@cases(
    "before, command, expected",
    {
        "a clean tree": (print, "git reset --hard", NOTHING),
        "a committed folder that is removed": (print, "rm -rf src", NOTHING),
        "changes elsewhere": (modified, "rm src/b.py", NOTHING),
        "untracked files, which a reset leaves": (untracked, "git reset --hard", NOTHING),
        "changes, which a clean leaves": (modified, "git clean -fd", NOTHING),
        "built files, which nobody misses": (lambda tree: write(tree, {"build/x": "x"}), "git clean -fdx", NOTHING),
        "a file that is not there": (print, "rm later.txt", UNKNOWN),
        "an ignored file": (ignored, "rm -rf src", UNKNOWN),
        "an ignored file beside new ones": (ignored_and_new, "rm -rf src", ASKS),
        "an ignored file, which a clean leaves": (ignored, "git clean -fd", NOTHING),
        "an ignored file and a clean of ignored files": (ignored, "git clean -fdx", ASKS),
        "a secret": (with_secret, "rm -r src", ASKS),
        "a secret that is cleaned": (with_secret, "git clean -f", ASKS),
        "a secret, which a reset leaves": (with_secret, "git reset --hard", NOTHING),
        "a submodule": (with_submodule, "rm -rf src", ASKS),
        "a submodule, which a reset leaves": (with_submodule, "git reset --hard", NOTHING),
        "a repository in it": (with_repository, "rm -rf src", ASKS),
        "a repository in it, which a clean leaves": (with_repository, "git clean -fd", NOTHING),
        "a repository in it that is cleaned": (with_repository, "git clean -ffd", ASKS),
        "too many files": (too_many, "git clean -fd", ASKS),
        "too large a file": (too_large, "rm -r src", ASKS),
        "the repository itself": (modified, "rm -rf .git", ASKS),
        "the work tree itself": (modified, "rm -rf ../work", ASKS),
        "hidden files of the top": (modified, "rm -rf .g*", ASKS),
        "all files, with the repository's": (modified, "find . -type f -delete", ASKS),
        "a file outside of a repository": (lambda tree: write(tree.parent, {"x": "x"}), "rm ../x", UNKNOWN),
        "locks of the repository": (lambda tree: write(tree, {".git/x.lock": ""}), "rm .git/*.lock", UNKNOWN),
        "all of the repository": (modified, "rm -rf .git/*", ASKS),
    },
)
def test_what_cannot_or_must_not_be_kept_asks(
    tree: Path, before: Callable[[Path], None], command: str, expected: str
) -> None:
    before(tree)
    assert outcome(command, tree) == expected
    assert Repository(str(tree)).snapshots() == []


def test_each_repository_of_a_line_has_a_snapshot(tree: Path) -> None:
    other = folders.repository(tree.parent / "other", {"a.py": "one\n"})
    modified(tree)
    write(other, {"a.py": "changed there\n"})
    found = some(looked("git reset --hard; git -C ../other reset --hard", tree))
    [here], [there] = (Repository(str(folder)).snapshots() for folder in (tree, other))
    assert (found.kept.snapshot, found.kept.lost) == (f"{here.id}, {there.id}", [])
    assert f"haltline undo {there.id} in {other} brings back" in found.text
    write(other, {"id_rsa": "a key"})
    assert some(looked("rm a.py ../other/id_rsa", tree)).kept.lost == ["path=../other/id_rsa"]


def test_through_a_link_the_files_behind_it_count(tree: Path) -> None:
    (tree.parent / "link").symlink_to(tree / "src")
    (tree / "src/to-a").symlink_to("../a.py")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "link")
    modified(tree)
    assert outcome("rm ../link/c.bin", tree) not in {ASKS, NOTHING}
    assert outcome("truncate -s 0 src/to-a", tree) not in {ASKS, NOTHING}
    assert outcome("rm src/to-a", tree) == NOTHING


def test_a_pattern_keeps_what_it_matches(tree: Path) -> None:
    untracked(tree)
    write(tree, {"src/x[1].txt": "literal\n", "src/e.txt": "other\n"})
    for command in ("rm src/*.txt", "find . -name '*.txt' -delete", "rm 'src/x[1].txt'"):
        assert outcome(command, tree) not in {ASKS, NOTHING}, command
    newest = Repository(str(tree)).snapshots()[0]
    assert newest.about.files == 1


def test_files_that_the_session_wrote_are_no_loss_until_others_change_them(tree: Path) -> None:
    own, path = OwnFiles(), tree / "mine.py"
    own.begin("c1", "Write", {"file_path": str(path), "content": "mine\n"}, str(tree))
    path.write_text("mine\n")
    own.end("c1")
    assert some(looked("rm mine.py", tree, own)).kept.snapshot is None
    path.write_text("changed by the user\n")
    assert some(looked("rm mine.py", tree, own)).kept.snapshot is not None


def test_a_git_that_hangs_is_given_up(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modified(tree)
    program = tmp_path / "bin" / "git"
    write(program.parent, {"git": "#!/bin/sh\nexec sleep 600\n"})
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with pytest.raises(GitFailed, match="took longer than"):
        Repository(str(tree), budget_s=0.2).look(repository.Specs(()), lambda _: False)
    monkeypatch.setattr(before_call, "LOOK_S", 0.2)
    assert outcome("git reset --hard", tree) == UNKNOWN


def test_work_that_git_does_not_keep_asks(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modified(tree)
    program = tmp_path / "bin" / "git"
    write(program.parent, {"git": f'#!/bin/sh\ncase "$*" in *fast-import*) exit 1;; esac\nexec {which("git")} "$@"\n'})
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    assert outcome("git reset --hard", tree) == ASKS


def test_only_the_newest_are_kept(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "MAX_KEPT", 2)
    modified(tree)
    for _ in range(3):
        outcome("git reset --hard", tree)
    assert len(Repository(str(tree)).snapshots()) == 2
