"""git: uncommitted work, history, branches, and published commits.

What is still in the history can be restored, so `git rm` and `git checkout -- file` are at most PLAIN.

Misses: git aliases; `git checkout X` where X is a file without a suffix that looks like a branch; `rebase`,
`commit --amend`; hooks; pushes by a configured `push.default` or `remote.*.mirror`; `git config`.
"""

from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from haltline.detectors.commands.files import lost_path
from haltline.detectors.commands.model import Badness, Destruction
from haltline.detectors.commands.names import is_agents_branch, is_main_branch, is_throwaway
from haltline.detectors.commands.paths import canonical
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.options import Options, parse
from haltline.schemas import expressions as re

_GLOBAL_VALUE_OPTIONS = frozenset(("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"))
_PUSH_VALUE_OPTIONS = frozenset(("-o", "--push-option", "--repo", "--receive-pack", "--exec"))
_FORCE = ("-f", "--force", "--force-with-lease", "--force-if-includes")
# `git checkout setup.py` is a file, `git checkout v1.2` is not: a suffix starts with a letter.
_FILE_SUFFIX = re.compile(r".\.[a-z][a-z0-9]{0,7}$", re.IGNORECASE | re.ASCII)

_RELEASE = re.compile(r"\A(?:refs/tags/.+|v?\d+\.\d[\w.-]*)")
"""A tag that is already published: overwriting it does not make it the session's own."""

Reader = Callable[[Invocation, tuple[str, ...]], Iterator[Destruction]]


def git(invocation: Invocation) -> Iterator[Destruction]:
    """Yield the losses by one `git` command."""
    arguments = invocation.argv[1:]
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        if arguments[at] == "-C" and at + 1 < len(arguments):
            invocation = replace(invocation, cwd=canonical(arguments[at + 1], invocation.cwd))
        at += 2 if arguments[at] in _GLOBAL_VALUE_OPTIONS else 1
    reader = _SUBCOMMANDS.get(arguments[at]) if at < len(arguments) else None
    if reader is not None:
        yield from reader(invocation, arguments[at + 1 :])


def _worktree(verb: str, invocation: Invocation) -> Destruction:
    return Destruction(verb, f"worktree={invocation.path('.')}", Badness.PLAIN)


def _at_most_plain(verb: str, invocation: Invocation, path: str) -> Destruction:
    lost = lost_path(verb, invocation, path)
    return Destruction(verb, lost.target, min(lost.badness, Badness.PLAIN))


def _reset(invocation: Invocation, arguments: tuple[str, ...]) -> Iterator[Destruction]:
    options = parse(arguments)
    if options.has("--hard", "--merge"):
        last = options.operands in (("HEAD~1",), ("HEAD~",), ("HEAD^",))
        yield _worktree("git_reset_last" if last else "git_reset_hard", invocation)


def _clean(invocation: Invocation, arguments: tuple[str, ...]) -> Iterator[Destruction]:
    options = parse(arguments, frozenset(("-e", "--exclude")))
    if not options.has("-f", "--force") or options.has("-n", "--dry-run"):
        return
    for path in options.operands:
        yield _at_most_plain("git_clean", invocation, path)
    if not options.operands:
        lost = _worktree("git_clean", invocation)
        # Ignored files are in no commit, and some of them no build brings back: settings, keys, local databases.
        yield Destruction(lost.verb, lost.target, Badness.SEVERE if options.has("-x", "-X") else lost.badness)


def _checkout(invocation: Invocation, arguments: tuple[str, ...]) -> Iterator[Destruction]:
    before, dashes, after = _at_dashes(arguments)
    options = parse(before, frozenset(("-b", "-B", "--orphan", "--conflict", "--pathspec-from-file")))
    if options.has("-b", "-B", "--orphan"):
        return
    paths = after
    if not dashes:
        # `checkout FILE`, `checkout COMMIT FILE...`, `checkout BRANCH`
        operands = options.operands
        paths = operands if operands and _is_file(operands[0]) else operands[1:]
    for path in paths:
        yield _discarded("git_checkout", invocation, path)
    if not paths and options.has("-f", "--force"):
        yield _worktree("git_checkout", invocation)


def _restore(invocation: Invocation, arguments: tuple[str, ...]) -> Iterator[Destruction]:
    before, _, after = _at_dashes(arguments)
    options = parse(before, frozenset(("-s", "--source", "--conflict", "--pathspec-from-file")))
    if options.has("-S", "--staged") and not options.has("-W", "--worktree"):
        return  # removes it from the index only
    for path in (*options.operands, *after):
        yield _discarded("git_restore", invocation, path)


def _discarded(verb: str, invocation: Invocation, path: str) -> Destruction:
    if path in (".", ":/", "*", "./"):
        return _worktree(verb, invocation)
    return _at_most_plain(verb, invocation, path)


def _is_file(operand: str) -> bool:
    return (
        operand.startswith(".")
        or operand in (":/", "*")
        or _FILE_SUFFIX.search(operand) is not None
        or operand.endswith("/")
    )


def _at_dashes(arguments: tuple[str, ...]) -> tuple[tuple[str, ...], bool, tuple[str, ...]]:
    if "--" not in arguments:
        return arguments, False, ()
    at = arguments.index("--")
    return arguments[:at], True, arguments[at + 1 :]


def _switch(invocation: Invocation, arguments: tuple[str, ...]) -> Iterator[Destruction]:
    if parse(arguments).has("-f", "--force", "--discard-changes"):
        yield _worktree("git_switch", invocation)


def _push(invocation: Invocation, arguments: tuple[str, ...]) -> Iterator[Destruction]:  # noqa: ARG001 - as the others
    options = parse(arguments, _PUSH_VALUE_OPTIONS)
    if options.has("-n", "--dry-run"):
        return
    remote, references = (*options.operands, "origin")[0], options.operands[1:]
    if options.has("--mirror", "--prune") or (options.has(*_FORCE) and options.has("--all", "--branches")):
        yield Destruction("git_push_mirror", f"remote={remote}", Badness.SEVERE)
    elif options.has("-d", "--delete"):
        for reference in references:
            yield _branch("git_push_delete", reference)
    else:
        forced = options.has(*_FORCE)
        if forced and options.has("--tags", "--follow-tags"):
            yield Destruction("git_push_force_tag", f"tag={remote}/*", Badness.PLAIN)
        for reference in references:
            yield from _pushed(reference, forced=forced)
        if forced and not references:
            yield Destruction("git_push_force", "branch=HEAD", Badness.PLAIN)


def _pushed(reference: str, *, forced: bool) -> Iterator[Destruction]:
    source, colon, destination = reference.removeprefix("+").partition(":")
    if colon and not source and destination:
        yield _branch("git_push_delete", destination)
    elif forced or reference.startswith("+"):
        name = destination or source
        yield _branch("git_push_force_tag" if _RELEASE.fullmatch(name) else "git_push_force", name)


def _branch(verb: str, name: str) -> Destruction:
    name = name.removeprefix("refs/heads/")
    return Destruction(verb, f"branch={name}", Badness.SEVERE if is_main_branch(name) else Badness.PLAIN)


def _delete_branch(invocation: Invocation, arguments: tuple[str, ...]) -> Iterator[Destruction]:  # noqa: ARG001 - as the others
    options: Options = parse(arguments)
    # -d refuses to delete unmerged branches; a remote-tracking branch is only a local record of the remote's branch.
    forced = options.has("-D") or (options.has("-d", "--delete") and options.has("-f", "--force"))
    if forced and not options.has("-r", "--remotes"):
        for name in options.operands:
            bad = Badness.SCRATCH if is_throwaway(name) or is_agents_branch(name) else Badness.PLAIN
            yield Destruction("git_branch_delete", f"branch={name}", bad)


def _stash(invocation: Invocation, arguments: tuple[str, ...]) -> Iterator[Destruction]:
    if arguments[:1] == ("clear",):
        yield Destruction("git_stash_clear", f"stash={invocation.path('.')}", Badness.PLAIN)
    elif arguments[:1] == ("drop",):
        entry = (*parse(arguments[1:]).operands, "stash@{0}")[0]
        yield Destruction("git_stash_drop", f"stash={entry}", Badness.PLAIN)


def _history(verb: str, *subcommands: str) -> Reader:
    """Return a reader of commands that rewrite or discard history: any use, or only with one of these subcommands."""

    def read(invocation: Invocation, arguments: tuple[str, ...]) -> Iterator[Destruction]:
        if (not subcommands or "".join(arguments[:1]) in subcommands) and not _is_dry(arguments):
            yield Destruction(verb, f"history={invocation.path('.')}", Badness.PLAIN)

    return read


def _gc(invocation: Invocation, arguments: tuple[str, ...]) -> Iterator[Destruction]:
    if parse(arguments).value("--prune") in ("now", "all"):
        yield Destruction("git_gc_prune", f"history={invocation.path('.')}", Badness.PLAIN)


def _rm(invocation: Invocation, arguments: tuple[str, ...]) -> Iterator[Destruction]:
    options = parse(arguments)
    if not options.has("--cached", "-n", "--dry-run"):
        for path in options.operands:
            yield _at_most_plain("git_rm", invocation, path)


def _tag(invocation: Invocation, arguments: tuple[str, ...]) -> Iterator[Destruction]:  # noqa: ARG001 - as the others
    options = parse(arguments)
    if options.has("-d", "--delete"):
        for name in options.operands:
            yield Destruction("git_tag_delete", f"tag={name}", Badness.PLAIN)


def _worktree_remove(invocation: Invocation, arguments: tuple[str, ...]) -> Iterator[Destruction]:
    if arguments[:1] == ("remove",) and parse(arguments).has("-f", "--force"):
        for path in parse(arguments[1:]).operands:
            yield _at_most_plain("git_worktree_remove", invocation, path)


def _update_ref(invocation: Invocation, arguments: tuple[str, ...]) -> Iterator[Destruction]:  # noqa: ARG001 - as the others
    if arguments[:1] == ("-d",):
        for name in arguments[1:2]:
            yield _branch("git_update_ref_delete", name)


def _is_dry(arguments: tuple[str, ...]) -> bool:
    return parse(arguments).has("-n", "--dry-run")


_SUBCOMMANDS: Mapping[str, Reader] = {
    "reset": _reset,
    "clean": _clean,
    "checkout": _checkout,
    "restore": _restore,
    "switch": _switch,
    "push": _push,
    "branch": _delete_branch,
    "stash": _stash,
    "reflog": _history("git_reflog_expire", "expire", "delete"),
    "filter-branch": _history("git_filter_branch"),
    "filter-repo": _history("git_filter_repo"),
    "gc": _gc,
    "prune": _history("git_prune"),
    "rm": _rm,
    "tag": _tag,
    "worktree": _worktree_remove,
    "update-ref": _update_ref,
}

TOOLS: Mapping[str, Callable[[Invocation], Iterator[Destruction]]] = {"git": git}
