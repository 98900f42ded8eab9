"""git: what `clean`, `checkout`, `restore` and `push` discard; the other commands are rows.

What is still in the history can be restored, so `git rm` and `git checkout -- file` are at most PLAIN.

Misses: git aliases; `git checkout X` where X is a file without a suffix that looks like a branch; `rebase`,
`commit --amend`; hooks; pushes by a configured `push.default` or `remote.*.mirror`; `git config`.
"""

from collections.abc import Callable, Iterator, Mapping

from haltline.detectors.commands.files import lost_path
from haltline.detectors.commands.model import Badness, Destruction
from haltline.detectors.commands.names import is_main_branch
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.options import leading, parse
from haltline.schemas import expressions as re

_PUSH_VALUE_OPTIONS = frozenset(("-o", "--push-option", "--repo", "--receive-pack", "--exec"))
_FORCE = ("-f", "--force", "--force-with-lease", "--force-if-includes")
# `git checkout setup.py` is a file, `git checkout v1.2` is not: a suffix starts with a letter.
_FILE_SUFFIX = re.compile(r".\.[a-z][a-z0-9]{0,7}$", re.IGNORECASE | re.ASCII)

_RELEASE = re.compile(r"\A(?:refs/tags/.+|v?\d+\.\d[\w.-]*)")
"""A tag that is already published: overwriting it does not make it the session's own."""

Reader = Callable[[Invocation, tuple[str, ...]], Iterator[Destruction]]


def git(invocation: Invocation) -> Iterator[Destruction]:
    """Yield the losses by one `git` command."""
    subcommand, *_ = leading("git", invocation.argv[1:]) or ("",)
    if subcommand in SUBCOMMANDS:
        yield from SUBCOMMANDS[subcommand](invocation, invocation.argv[invocation.argv.index(subcommand) + 1 :])


def _worktree(verb: str, invocation: Invocation) -> Destruction:
    return Destruction(verb, f"worktree={invocation.path('.')}", Badness.PLAIN)


def _at_most_plain(verb: str, invocation: Invocation, path: str) -> Destruction:
    lost = lost_path(verb, invocation, path)
    return Destruction(verb, lost.target, min(lost.badness, Badness.PLAIN))


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


SUBCOMMANDS: Mapping[str, Reader] = {
    "clean": _clean,
    "checkout": _checkout,
    "restore": _restore,
    "push": _push,
}

TOOLS: Mapping[str, Callable[[Invocation], Iterator[Destruction]]] = {"git": git}
