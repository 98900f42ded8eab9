"""What a call discards of the files beside this process, by its text: pure.

The call is read as the worker reads it, so that both name the targets alike. Imported only for a call that names
something destructive (`fail_policy`), as the readers are many.

Misses: untracked files that stand where the commit of a `reset` or `checkout` has files; scripts that the call runs.
Names nothing for acts elsewhere: on other hosts, in containers, in a repository given by options.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from functools import cache
from typing import Final

from haltline.detectors.commands import destructions
from haltline.detectors.commands.model import LOSSES, Badness, Destruction
from haltline.detectors.commands.paths import badness
from haltline.detectors.features.call import Phase
from haltline.detectors.features.call_tracker import CallTracker
from haltline.detectors.features.observation import Observation
from haltline.detectors.features.tool_classifier import Classifier, cwd_of
from haltline.schemas import expressions as re
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Policy, Reading


class Work(Flag):
    """Kinds of work that no commit has."""

    CHANGES = auto()
    """Changes of tracked files, staged or not."""
    UNTRACKED = auto()
    IGNORED = auto()
    REMOVED = auto()
    """The files themselves are removed, with submodules and repositories among them."""
    STASHES = auto()


@dataclass(frozen=True, slots=True)
class Discard:
    """What one act discards."""

    target: str
    """As detectors name it."""
    path: str
    """Absolute: a file or folder, with `*` and the like where the act has them; or any folder of the work tree."""
    work: Work
    is_whole: bool = False
    """The whole work tree that contains `path`."""
    follows_links: bool = False
    """It writes to the file that a link leads to."""
    is_by_git: bool = False
    """It leaves repositories."""


_FILES: Final = Work.CHANGES | Work.UNTRACKED | Work.IGNORED | Work.REMOVED
_BY_VERB: Final = {
    **dict.fromkeys(
        ("git_reset_hard", "git_reset_last", "git_checkout", "git_restore", "git_switch"),
        Work.CHANGES,
    ),
    "git_clean": Work.UNTRACKED,
    **dict.fromkeys(("git_stash_drop", "git_stash_clear"), Work.STASHES),
    **dict.fromkeys(
        # programs, then functions of other languages
        (
            "rm", "git_rm", "rmdir", "unlink", "find_delete", "rimraf", "trash", "remove_item", "rsync_delete",
            "rmtree", "remove", "remove_tree", "remove_dir_all", "remove_file", "rm_rf", "rmsync", "unlinksync",
            "delete",
        ),
        _FILES,
    ),
}  # fmt: skip
_EMPTIED: Final = frozenset(("truncate", "open_for_writing", "empty_file", "write_nothing", "clear_content", "dd"))
_ELSEWHERE: Final = re.compile(
    r"(?:^|[\s;&|(`\"'])(?:ssh|docker|podman|nerdctl|kubectl|oc|chroot|nsenter|vagrant|lxc|lxd|incus|limactl|multipass"
    r"|wsl|adb|lftp|sftp|ansible|salt|flyctl|fly|heroku|distrobox|toolbox|devcontainer|machinectl|bwrap|sshpass|unshare)\s"
    r"|GIT_DIR|GIT_WORK_TREE|--git-dir|--work-tree"
)
"""Programs that run others elsewhere, or with another file system, and options with another repository."""
_IN_SHELL: Final = re.compile(r"GIT_DIR|GIT_WORK_TREE|<<|\$\(|`")
"""What changes the repository of later commands, and text that is not split into commands here."""
_PIECE: Final = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|&&|\|\||[;&\n]|[^;&|\n'\"\\]+|.", re.DOTALL)
"""A piece of a line: quoted text, what is between commands, other text."""
_BETWEEN: Final = frozenset(("&&", "||", ";", "&", "\n"))
_STAGES: Final = re.compile(r"\bgit\b[^;&|\n]{0,200}\b(?:add|stage)\b")
_CLEAN: Final = re.compile(r"\bclean\b([^;&|\n]{0,200})")
_GOES: Final = re.compile(r"(?<![\w.-])(?:cd|pushd|popd)(?![\w.-])|\s-C\b")
_STASHES: Final = re.compile(r"\bstash\b")


def discards(event: ActionEvent, folder: str) -> tuple[Discard, ...]:
    """Return what a proposed call discards of local files and stashes; `folder`: where it runs, absolute."""
    act = Observation(event, _classifier(), Phase.ATTEMPT, CallTracker())
    acts = act.acts
    if not acts:
        return ()
    given = cwd_of(event)
    here = os.path.join(folder, given) if given else folder
    text = act.text
    if act.runs and act.tool.reading is Reading.SHELL:
        return tuple(_by_text(acts, destructions(text, cwd=here), text, here)) if text else ()
    if act.runs:
        return ()
    return tuple(_by_tool(acts, here))


def _by_text(acts: Sequence[Destruction], placed: Sequence[Destruction], text: str, folder: str) -> Iterator[Discard]:
    """`placed`: the same acts with the folder in their targets: what is relative then, is not on this machine."""
    if [act.verb for act in acts] != [act.verb for act in placed]:
        return
    here = placed
    if _ELSEWHERE.search(text) is not None:
        here = () if _IN_SHELL.search(text) is not None else destructions(_without_elsewhere(text), cwd=folder)
    kept = sum(act.target.startswith("stash=") for act in acts)
    for act, there in zip(acts, placed, strict=True):
        kind, _, place = there.target.partition("=")
        work = _FILES if act.verb in _EMPTIED else _BY_VERB.get(act.verb.lower())
        if work is None or act.effect not in LOSSES or there not in here:
            continue
        if kind == "stash":
            if _GOES.search(text) is None:
                if len(_STASHES.findall(text)) > kept:  # what is stashed before, and then dropped
                    work |= Work.CHANGES | Work.UNTRACKED
                yield Discard(act.target, folder, work, is_whole=True)
            continue
        place = os.path.expanduser(place)
        if kind not in {"path", "worktree"} or not os.path.isabs(place):
            continue
        if act.verb.startswith("git_"):
            if _STASHES.search(text) is not None:  # what is popped before, and then discarded
                work |= Work.STASHES
            if _STAGES.search(text) is not None:
                work |= Work.UNTRACKED
        if act.verb == "git_clean" and _cleans_more(text):
            work |= Work.IGNORED | Work.REMOVED
        yield Discard(
            act.target,
            place,
            work,
            is_whole=kind == "worktree",
            follows_links=act.verb in _EMPTIED,
            is_by_git=act.verb.startswith("git_") and act.verb != "git_clean",
        )


def _without_elsewhere(text: str) -> str:
    """Return a line in which the commands that run others elsewhere do nothing."""
    commands: list[list[str]] = [[]]
    for found in _PIECE.finditer(text):
        if (piece := found[0]) in _BETWEEN:
            commands += [[piece], []]
        else:
            commands[-1].append(piece)
    return "".join(map(_unless_elsewhere, commands))


def _unless_elsewhere(pieces: Sequence[str]) -> str:
    command = "".join(pieces)
    found = _ELSEWHERE.search(command)
    if found is None:
        return command
    before, at = "", found.start()
    for piece in pieces:
        if len(before) + len(piece) > at:  # no quote is left open
            before += "" if piece[0] in "'\"" else piece[: at - len(before)]
            break
        before += piece
    return f"{before} true "


def _by_tool(acts: Sequence[Destruction], folder: str) -> Iterator[Discard]:
    """Return what a tool that is no shell deletes or empties, by the path in its arguments."""
    for act in acts:
        kind, _, place = act.target.partition("=")
        if kind == "path" and act.effect in LOSSES and place:
            yield Discard(act.target, os.path.join(folder, place), _FILES, follows_links=act.verb in _EMPTIED)


def _cleans_more(text: str) -> bool:
    """Return whether a `git clean` also removes ignored files, or repositories."""
    for found in _CLEAN.finditer(text):
        flags = "".join(word for word in found[1].split() if word.startswith("-") and not word.startswith("--"))
        if "x" in flags.lower() or flags.count("f") > 1:
            return True
    return False


def is_scratch(path: str) -> bool:
    """Return whether nobody misses a file or folder: build output, caches. `path`: in its work tree."""
    return badness(path, everything=True) is Badness.SCRATCH


@cache
def _classifier() -> Classifier:
    return Classifier(Policy())
