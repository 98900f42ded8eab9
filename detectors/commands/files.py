"""Files: `rm` and similar programs, `find -delete`, truncation, redirections.

Misses: overwriting by `mv`, `cp`, `ln -f`, `tar x`, `sed -i` and `>`; `rm` of an extended glob; `chmod` and `chown` of
less than a system folder; `rsync` and `rclone` without `--delete`; editors; `cat < /dev/null > file`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from msgspec.structs import replace as replaced

from haltline.detectors.commands.model import OPENED, ActEffect, Badness, Destruction, listed
from haltline.detectors.commands.paths import badness
from haltline.detectors.commands.rows import cells_of, expression_of, words_of
from haltline.detectors.commands.shell import pipes
from haltline.detectors.commands.shell.finder import find_deletes, find_results
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.options import parse
from haltline.schemas import expressions as re

_DISK = expression_of("a device holds data")
_LOOP_DEVICE = re.compile(r"/dev/(?:loop|ram|zram)\d+.*")
_SILENT = frozenset((":", "true", "false", "break"))
_TEMPORARY = frozenset(("/tmp", "/var/tmp", "/dev/shm", "/private/tmp", "/mnt/ramdisk", "/run/shm"))
_BELOW_TEMPORARY = tuple(f"{place}/" for place in sorted(_TEMPORARY))
_TRASH = re.compile(r"(?:^|/)\.?Trash(?:es|-\d+)?(?:/|$)")
_SILENT_WITH = {
    name: re.compile(rf"\A(?:{pattern})") for names, pattern in cells_of("silent") for name in names.split(",")
}
"""Arguments with which a program prints nothing."""
_READERS = words_of("filters without other effects")
"""Filters without other effects: redirected into their own input file, they empty it."""
_EMPTY_LINE_BY_CUSTOM = listed(".py .md .txt .gitkeep .keep .gitignore .ts .js .log .env .nojekyll")
_LOG = re.compile(r"\A(?:[\w.-]+/){0,2}[\w.-]*\.(?:log|out|err|pid|trace|swp)")
"""Logs and similar files near the working directory, which have no lasting value."""
_OWN_OUTPUT = expression_of("a file is output of a program")
"""Names of files in the working directory to which programs write their output."""
_EMPTIES = frozenset(("truncate", OPENED))
_TRUNCATING = frozenset((">", ">|", "&>"))

_WINDOWS_HOME = re.compile(r"^(?:%userprofile%|\$env:userprofile|\$\{env:userprofile\})(?=[\\/]|$)", re.IGNORECASE)
_ON_DRIVE = re.compile(r"[A-Za-z]:(?:[\\/]|$)")
_MAX_DRIVE_CHARS = 4096
_TOP_OF_DRIVES = frozenset(("windows", "program files", "program files (x86)", "programdata", "users"))


def lost_path(verb: str, invocation: Invocation, argument: str, *, everything: bool = False) -> Destruction:
    """Return the loss of a path; with `everything`, including all below it."""
    if _WINDOWS_HOME.match(argument) is not None:
        argument = _WINDOWS_HOME.sub("~", argument).replace("\\", "/")
    if len(argument) < _MAX_DRIVE_CHARS and _ON_DRIVE.match(argument) is not None:
        return _lost_on_drive(verb, argument, everything=everything)
    path = invocation.path(argument)
    if is_disk(path):
        return device_loss(verb, path)
    bad = badness(path, everything=everything, start=invocation.start)
    if verb in _EMPTIES and _OWN_OUTPUT.fullmatch(path) is not None:
        bad = min(bad, Badness.SCRATCH)
    return Destruction(verb, f"path={path}", bad)


def _lost_on_drive(verb: str, path: str, *, everything: bool) -> Destruction:
    """Return the loss of a path of Windows, with slashes in the target: `path=C:/Users/dana`."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    below = parts[1:-1] if parts[-1] in ("*", "*.*") and len(parts) > 1 else parts[1:]
    everything = everything or len(below) < len(parts) - 1
    top = [part.lower() for part in below]
    whole = not top or (len(top) == 1 and top[0] in _TOP_OF_DRIVES) or (len(top) == 2 and top[0] == "users")
    personal = len(top) == 3 and top[0] == "users" and top[2] in ("documents", "desktop", "pictures")
    bad = badness("/".join(below), everything=everything) if below else Badness.PLAIN
    if everything and (whole or personal):
        bad = Badness.SEVERE
    return Destruction(verb, f"path={parts[0].upper()}/{'/'.join(parts[1:])}", bad)


def is_disk(path: str) -> bool:
    """Return whether a path is a device that holds data; a name in an unknown variable counts."""
    return path.startswith("/dev/") and _DISK.fullmatch(path) is not None


def device_loss(verb: str, path: str) -> Destruction:
    """Return the loss of a device."""
    bad = Badness.PLAIN if _LOOP_DEVICE.fullmatch(path) else Badness.SEVERE
    return Destruction(verb, f"device={path}", bad)


def _rm(invocation: Invocation) -> Iterator[Destruction]:
    options = invocation.options()
    everything = options.has("-r", "-R", "--recursive")
    for operand in options.operands:
        lost = lost_path("rm", invocation, operand, everything=everything)
        if not everything and _LOG.fullmatch(lost.target.removeprefix("path=")) is not None:
            lost = replace(lost, badness=min(lost.badness, Badness.SCRATCH))
        yield lost


def _mv(invocation: Invocation) -> Iterator[Destruction]:
    options = invocation.options("-S --suffix -t --target-directory")
    into = options.value("-t", "--target-directory")
    operands = (*options.operands, into) if into else options.operands
    if len(operands) < 2:
        return
    if operands[-1] == "/dev/null":
        for operand in operands[:-1]:
            yield lost_path("mv_to_null", invocation, operand, everything=True)
    else:
        yield from _moved_away(invocation, operands[:-1], operands[-1])


def _moved_away(invocation: Invocation, sources: tuple[str, ...], destination: str) -> Iterator[Destruction]:
    """Yield the loss of sources moved to a trash, and of absolute paths or `.git` moved to a temporary directory."""
    path = invocation.path(destination)
    trash = _TRASH.search(path) is not None
    if not trash and not (path in _TEMPORARY or path.startswith(_BELOW_TEMPORARY)):
        return
    for source in sources:
        origin = invocation.path(source)
        if trash or origin.startswith(("/", "~", "$")) or origin == ".git":
            lost = lost_path("mv_to_trash" if trash else "mv_to_temporary", invocation, source, everything=True)
            yield replace(lost, reversible=True, badness=min(lost.badness, Badness.PLAIN))


def _find(invocation: Invocation) -> Iterator[Destruction]:
    if find_deletes(invocation):
        for result in find_results(invocation):
            everything = result.endswith("/**")
            yield lost_path("find_delete", invocation, result, everything=everything)


def _rsync(invocation: Invocation) -> Iterator[Destruction]:
    """`rsync --delete source destination`."""
    options = invocation.options("-e --rsh --exclude --include -f --filter")
    deletes = any(option == "--del" or option.startswith("--delete") for option in options.options)
    if options.has("-n", "--dry-run") or len(options.operands) < 2 or not deletes:
        return
    destination = options.operands[-1]
    if ":" in destination.partition("/")[0]:
        yield Destruction("rsync_delete", f"path={destination}", Badness.PLAIN)
    else:
        yield lost_path("rsync_delete", invocation, destination, everything=True)


def _tar(invocation: Invocation) -> Iterator[Destruction]:
    """The files that are packed with `--remove-files`."""
    words = invocation.argv[1:]
    if "--remove-files" in words:
        operands = parse(
            [word for word in words if word != "--remove-files"], frozenset(("-f", "--file", "-C"))
        ).operands
        if words[0].isalpha():  # `tar czf ARCHIVE`
            operands = operands[1 + ("f" in words[0]) :]
        for operand in operands:
            yield lost_path("archive_remove", invocation, operand, everything=True)


def _tee(invocation: Invocation) -> Iterator[Destruction]:
    options = invocation.options()
    for operand in options.operands:
        yield from _opened(invocation, operand)
    if (invocation.reads == "/dev/null" or _is_empty(invocation)) and not options.has("-a", "--append"):
        for operand in options.operands:
            if not operand.startswith("/dev/"):
                yield lost_path("truncate", invocation, operand)


def _is_empty(invocation: Invocation) -> bool:
    if invocation.upstream is not None and _writes_nothing(invocation.upstream):
        return True
    return invocation.stdin is not None and not invocation.stdin.strip()


TOOLS: Mapping[str, Callable[[Invocation], Iterator[Destruction]]] = {
    "rm": _rm,
    "tar": _tar,
    "tee": _tee,
    "sponge": _tee,
    "mv": _mv,
    "find": _find,
    "rsync": _rsync,
}


def redirections(invocation: Invocation) -> Iterator[Destruction]:
    """Yield what the output redirections of a program destroy: a disk, or a file that is emptied."""
    for operator, target in invocation.writes:
        path = invocation.path(target)
        yield from _opened(invocation, target)
        if is_disk(path):
            yield device_loss("write_device", path)
        elif operator in _TRUNCATING and not path.startswith("/dev/"):
            if _writes_nothing(invocation):
                is_heredoc = invocation.argv == ("cat",) and not invocation.reads and invocation.upstream is None
                is_made = not invocation.argv or invocation.name in _SILENT or is_heredoc
                yield lost_path(OPENED if is_made else "truncate", invocation, target)
            elif _writes_a_blank_line(invocation, path) or _reads_it(invocation, target):
                yield lost_path("truncate", invocation, target)


_OPENS = expression_of("a file grants access")
"""Files that grant access."""


def _opened(invocation: Invocation, target: str) -> Iterator[Destruction]:
    path = invocation.path(target)
    if _OPENS.search(path) is not None:
        yield Destruction("grant_by_file", f"path={path}", Badness.PLAIN, ActEffect.EXPOSES)


def _writes_a_blank_line(invocation: Invocation, path: str) -> bool:
    return (
        invocation.name in ("echo", "echo.")
        and all(word in ("", " ", "-e", "-n") for word in invocation.argv[1:])
        and not path.endswith(_EMPTY_LINE_BY_CUSTOM)
    )


def _reads_it(invocation: Invocation, target: str) -> bool:
    return invocation.name in _READERS and (target in invocation.argv[1:] or invocation.reads == target)


def _writes_nothing(invocation: Invocation) -> bool:
    return (
        (
            invocation.name in _SILENT_WITH
            and _SILENT_WITH[invocation.name].match(" ".join(invocation.argv[1:])) is not None
        )
        or not invocation.argv
        or (invocation.name in _SILENT and len(invocation.argv) == 1)
        or (invocation.argv[-1:] == ("/dev/null",) and all(word[:1] == "-" for word in invocation.argv[1:-1]))
        or invocation.argv == ("$null",)
        or (invocation.name == "echo" and invocation.argv[1:] in (("-n",), ("",), ("-n", "")))
        or (invocation.name in ("cat", "printf") and pipes.output(replaced(invocation, writes=())) == "")
    )
