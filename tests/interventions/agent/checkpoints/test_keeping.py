import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from haltline.interventions.agent.checkpoints import (
    CannotKeep,
    CannotRestore,
    Checkpoints,
    FolderCheckpoints,
    GitCheckpoints,
)
from tests.programs import printed


def git(folder: Path, *args: str) -> str:
    identity = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
    return printed("git", *identity, *args, cwd=folder)


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_text()
        for path in sorted(folder.rglob("*"))
        if ".git" not in path.relative_to(folder).parts and (path.is_symlink() or path.is_file())
    }


def written(folder: Path, texts: Mapping[str, str]) -> Path:
    """The folder, with these files in it."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A work tree with something committed, staged, changed, untracked and ignored."""
    folder = written(tmp_path / "work", {".gitignore": "*.log\n", "committed.txt": "1\n", "gone.txt": "1\n"})
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    written(folder, {"committed.txt": "changed by the user\n", "staged.txt": "staged by the user\n"})
    git(folder, "add", "staged.txt")
    written(folder, {"src/untracked ä.txt": "not known to git\n", "debug.log": "ignored\n", "run.sh": "#!/bin/sh\n"})
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("committed.txt")
    return folder


def rampage(folder: Path) -> None:
    written(folder, {"committed.txt": "destroyed\n", "new/deep/file.txt": "new\n"})
    (folder / "staged.txt").unlink()
    instead_of(folder / "src").write_text("a file where a folder was\n")
    (folder / "run.sh").chmod(0o644)
    instead_of(folder / "link").symlink_to("/etc/passwd")


KINDS: dict[str, Callable[[Path], Checkpoints]] = {
    "git": GitCheckpoints,
    "a folder": lambda tree: FolderCheckpoints(tree, store=tree.parent / "store", exclude=(".git", "*.log")),
}


@pytest.fixture(params=KINDS)
def checkpoints(request: pytest.FixtureRequest, tree: Path) -> Checkpoints:
    return KINDS[request.param](tree)


@pytest.fixture
def kept(tree: Path) -> GitCheckpoints:
    checkpoints = GitCheckpoints(tree, max_file_bytes=1000)
    checkpoints.keep("c1")
    return checkpoints


def instead_of(path: Path) -> Path:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    return path


def test_the_files_are_as_they_were(tree: Path, checkpoints: Checkpoints) -> None:
    before = files(tree)
    checkpoints.keep("c1")
    rampage(tree)
    assert files(tree) != before
    restored = checkpoints.restore("c1")
    assert files(tree) == before
    assert os.access(tree / "run.sh", os.X_OK)
    assert not (tree / "new").exists()
    assert (restored.put_back, restored.removed) == (5, 2)
    assert restored.proof
    assert checkpoints.restore("c1").put_back == 0, "and going back again changes nothing"


def test_what_was_there_before_is_kept_and_nothing_changed_by_unknown_names(
    tree: Path, checkpoints: Checkpoints
) -> None:
    checkpoints.keep("c1")
    (tree / "users.txt").write_text("written by the user meanwhile, committed nowhere\n")
    before = files(tree)
    with pytest.raises(CannotRestore, match="c9 is not known here; nothing was changed"):
        checkpoints.restore("c9")
    assert files(tree) == before
    kept_as = checkpoints.restore("c1").kept_as
    assert not (tree / "users.txt").exists()
    if isinstance(checkpoints, GitCheckpoints):
        assert git(tree, "show", f"{kept_as}:users.txt").startswith("written by the user")
    else:
        assert (Path(kept_as) / "users.txt").read_text().startswith("written by the user")


def test_git_neither_head_nor_index_nor_branches_nor_stash_nor_ignored_files_are_touched(tree: Path) -> None:
    (tree / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (tree / ".git" / "hooks" / "pre-commit").chmod(0o755)

    def state() -> list[str]:
        commands = ("rev-parse HEAD", "branch -a", "stash list", "ls-files --stage", "status -s")
        return [git(tree, *command.split()) for command in commands]

    before = state()
    checkpoints = GitCheckpoints(tree)
    checkpoints.keep("c1")
    assert state() == before
    written(tree, {"committed.txt": "destroyed\n", "debug.log": "goes on\n"})
    checkpoints.restore("c1")
    assert state() == before
    assert (tree / "debug.log").read_text() == "goes on\n"


def test_git_commits_of_the_agent_are_not_lost(tree: Path) -> None:
    checkpoints = GitCheckpoints(tree)
    before = files(tree)
    checkpoints.keep("c1")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "by the agent")
    head = git(tree, "rev-parse", "HEAD")
    (tree / "committed.txt").unlink()
    checkpoints.restore("c1")
    assert files(tree) == before
    assert git(tree, "rev-parse", "HEAD") == head


def test_git_before_the_first_commit_and_from_a_folder_below(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    written(tmp_path, {"below/b.txt": "1", "a.txt": "1"})
    checkpoints, name = GitCheckpoints(tmp_path / "below"), "../../etc: a name that is no name of a ref~^.lock"
    checkpoints.keep(name)
    (tmp_path / "a.txt").write_text("2")
    checkpoints.restore(name)
    assert (tmp_path / "a.txt").read_text() == "1"


@pytest.mark.parametrize("how", ["ignored", "too large", "excluded"])
def test_git_what_was_kept_and_is_ignored_or_too_large_by_now_is_put_back_and_not_lost(tree: Path, how: str) -> None:
    checkpoints = GitCheckpoints(tree, max_file_bytes=1000)
    (tree / "notes.txt").write_text("v1\n")
    (tree / "large.bin").write_bytes(b"0" * 2000)  # never known to git, and too large: it is left alone
    checkpoints.keep("c1")
    (tree / "large.bin").write_bytes(b"1" * 2000)
    work = "v2, hours of work\n" * (1 if how != "too large" else 100)
    (tree / "notes.txt").write_text(work)
    if how == "ignored":
        (tree / ".gitignore").write_text("*.log\nnotes.txt\n")
    if how == "excluded":
        (tree / ".git" / "info" / "exclude").write_text("notes.txt\n")
    kept_as = checkpoints.restore("c1").kept_as
    assert (tree / "notes.txt").read_text() == "v1\n"
    assert (tree / "large.bin").read_bytes() == b"1" * 2000
    assert git(tree, "show", f"{kept_as}:notes.txt") == work


def test_git_a_folder_with_files_that_are_kept_nowhere_is_not_removed(tree: Path, kept: GitCheckpoints) -> None:
    texts = {"kept.txt": "kept\n", "precious.log": "kept nowhere\n"}
    folder = written(instead_of(tree / "committed.txt"), texts)
    before = files(tree)
    with pytest.raises(CannotRestore, match=r"nothing was changed.*committed\.txt/precious\.log in it would be lost"):
        kept.restore("c1")
    assert files(tree) == before
    (folder / "precious.log").unlink()
    kept_as = kept.restore("c1").kept_as
    assert (tree / "committed.txt").read_text() == "changed by the user\n"
    assert git(tree, "show", f"{kept_as}:committed.txt/kept.txt") == "kept\n"


def test_git_what_was_ignored_stays_though_nothing_is_ignored_any_more(tree: Path) -> None:
    written(tree / "src", {".gitignore": ".env\nbuild/\n", ".env": "SECRET=1\n", "build/a.o": "built\n"})
    checkpoints = GitCheckpoints(tree)
    before = files(tree)
    checkpoints.keep("c1")
    written(tree, {".gitignore": "", "new.txt": "new\n"})
    (tree / "src" / ".gitignore").unlink()
    assert checkpoints.restore("c1").removed == 1
    assert files(tree) == before


def test_git_a_folder_that_became_a_link_leads_nowhere(tree: Path, kept: GitCheckpoints, tmp_path: Path) -> None:
    outside = written(tmp_path / "outside", {"untracked ä.txt": "somebody else's\n"})
    instead_of(tree / "src").symlink_to(outside)
    kept.restore("c1")
    assert not (tree / "src").is_symlink()
    assert (tree / "src" / "untracked ä.txt").read_text() == "not known to git\n"
    assert (outside / "untracked ä.txt").read_text() == "somebody else's\n"


def test_where_there_is_no_work_tree_it_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="git work tree"):
        GitCheckpoints(tmp_path)
    with pytest.raises(ValueError, match="expected a folder"):
        FolderCheckpoints(tmp_path / "none")
    with pytest.raises(ValueError, match="outside"):
        FolderCheckpoints(tmp_path, store=tmp_path / "below")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return written(tmp_path / "work", {"a.txt": "1"})


def test_a_folder_that_is_too_large_is_not_kept_and_when_it_became_so_not_changed(work: Path) -> None:
    checkpoints = FolderCheckpoints(work, store=work.parent / "store", max_bytes=100)
    checkpoints.keep("c1")
    (work / "b.txt").write_text("2" * 200)
    with pytest.raises(CannotKeep, match="at most 100 bytes, got 201"):
        checkpoints.keep("c2")
    with pytest.raises(CannotRestore, match="nothing was changed"):
        checkpoints.restore("c1")
    assert (work / "b.txt").exists()


def test_a_folder_keeps_so_many_copies_and_none_of_what_was_replaced_or_could_not_be_copied_whole(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = work.parent / "store"
    checkpoints = FolderCheckpoints(work, store=store, max_kept=3)
    for number in range(5):
        (work / "a.txt").write_text(str(number))
        checkpoints.keep(f"c{number}")
    assert len(list(store.iterdir())) == 3
    with pytest.raises(CannotRestore):
        checkpoints.restore("c1")
    for _ in range(3):
        checkpoints.keep("c4")
    assert len(list(store.iterdir())) == 3, "of one name there is one copy"
    before = []
    for number in range(10):
        (work / "a.txt").write_text(f"by the user {number}")
        before.append(Path(checkpoints.restore("c4").kept_as))
        assert (work / "a.txt").read_text() == "4"
    assert len(list(store.iterdir())) == 3
    assert [(kept / "a.txt").read_text() for kept in before if kept.exists()] == ["by the user 8", "by the user 9"]

    def full(*args: object, **kwargs: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("shutil.copyfile", full)
    with pytest.raises(CannotKeep, match="no space left"):
        checkpoints.keep("c5")
    assert len(list(store.iterdir())) == 3
