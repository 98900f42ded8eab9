"""Paths: the canonical form, and the damage of losing a path.

The rules of this module:

- Everything in an unknown working directory (`rm -rf *`, `rm -rf .`), and a known working directory or a parent of it,
  is SEVERE unless it is scratch.
- `/prod/build` is PLAIN: production overrides a scratch name below it; `build/prod` is SCRATCH.
- `/tmp/x` is SCRATCH, `/tmp` and `/tmp/*` are PLAIN, since they are shared.
- Directories of backups are SEVERE (`/data/backup`, `backups`), a single copy beside the work
  (`backup`, `app_backup`, `x.bak`) is PLAIN.
- Below `/srv` and `/var/www`, which are served, only unambiguous names are scratch
  (`node_modules`, `__pycache__`): a `dist` there is a published site.
- `/usr/lib/python3/site-packages/x` is SCRATCH, since it can be installed again; the directory of all of them is PLAIN.
- Names that also name source code (`build`, `target`, `dist`, `out`) do not make a single source file scratch.
- A path that starts with an unknown variable is PLAIN unless a name in it is scratch; `/$X`, removed with everything
  below it, is SEVERE, since an empty variable makes it `/`.

Misses: symbolic links and mounts; whether a file is under version control; `~name` as another user's home;
case-insensitive file systems; Windows paths.
"""

from enum import Enum, auto
from fnmatch import fnmatchcase
from functools import lru_cache

from haltline.detectors.commands.model import Badness, listed
from haltline.detectors.commands.names import is_backup, is_production, is_scratch, is_throwaway
from haltline.detectors.commands.rows import expression_of, words_of
from haltline.schemas import expressions as re

_BELOW_IS_SCRATCH = tuple(words_of("folders of temporary files"))
_CACHES = ("/var/cache/", "/var/lib/apt/lists/")
_PLAIN = re.compile(r"/?(?:[\w+@-][\w.+@-]*/)*[\w+@-][\w.+@-]*")
"""A path that is canonical already, as most are."""
_SYSTEM = frozenset(listed("bin boot dev etc lib lib32 lib64 proc sbin srv sys usr var System Library Applications"))
_MOUNTS = frozenset(("mnt", "media", "Volumes"))
_HOMES = frozenset(("home", "Users"))
_PERSONAL = words_of("personal folders")
_CRITICAL_FILES = words_of("critical files")
_SCRATCH_NAMES = words_of("names of what is made again")
_AMBIGUOUS_NAMES = words_of("names of what may be made again")
_SCRATCH_SUFFIXES = tuple(words_of("suffixes of what is made again"))
_SCRATCH_PATTERNS = words_of("patterns of what is made again")
_REPRODUCTION = expression_of("a program reproduces a fault")
"""A program that reproduces a fault, beside the sources and outside the directory of tests."""
_KEPT_AMONG = frozenset(("tests", "test", "testing", "spec", "src", "lib", "app", "srv"))
_SOURCE = expression_of("a file is source code")
_ALL_OF_IT = re.compile(r"(?:\*+|\.\*|\{,\.\}\*|\.\[!\.\]\*|\.\?\?\*)")
_UNKNOWN_START = ("$", "<")


_SHORT_CHARS = 256
_LONGEST_NAME_CHARS = 255
"""No file system has a longer name."""


def canonical(path: str, cwd: str | None = None) -> str:
    """Return a path without `.`, `..`, doubled and trailing slashes; a relative path is joined to `cwd`, if known."""
    return _short_canonical(path, cwd) if len(path) <= _SHORT_CHARS else _canonical(path, cwd)


def _canonical(path: str, cwd: str | None) -> str:
    if cwd and not path.startswith(("/", "~", *_UNKNOWN_START)):
        path = f"{cwd}/{path}"
    if _PLAIN.fullmatch(path) is not None:
        return path
    absolute = path.startswith("/")
    parts: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part != "..":
            parts.append(part)
        elif parts and not absolute and len(parts) == 1 and parts[0].startswith("~"):
            absolute, parts = True, ["home"]  # the parent of a home directory
        elif parts and parts[-1] != ".." and not (len(parts) == 1 and parts[0].startswith(_UNKNOWN_START)):
            parts.pop()
        elif not absolute:
            parts.append("..")
    joined = "/".join(parts)
    if joined.startswith("~") and not absolute and not path.startswith("~"):
        joined = "./" + joined  # a file with that name, not a home directory
    return f"/{joined}" if absolute else joined or "."


_short_canonical = lru_cache(maxsize=8192)(_canonical)
"""An agent uses the same paths repeatedly."""


def badness(path: str, *, everything: bool, start: str | None = None) -> Badness:
    """Return the damage of losing a canonical path; with `everything`, including all below it.

    `start` is the canonical working directory of the session, if known.
    """
    place = path
    if path[-1:] in ("*", "]"):
        names = path.split("/")
        while names and _ALL_OF_IT.fullmatch(names[-1]) is not None:
            names.pop()
        place = "/".join(names) or ("/" if path.startswith("/") else ".")
    # `/etc/*` without its subdirectories also counts as all of it; `*` in the working directory is some files.
    everything = everything or (place not in (path, ".", start))
    parts = place.strip("/").split("/") if place != "/" else []
    if _is_scratch(place, parts, everything=everything) or (parts and _is_reproduction(parts)):
        return Badness.SCRATCH
    if place in _CRITICAL_FILES or (everything and _is_catastrophe(place, parts, start)):
        return Badness.SEVERE
    return Badness.PLAIN


def _is_scratch(place: str, parts: list[str], *, everything: bool) -> bool:
    if place.startswith("/"):
        if place.startswith(_BELOW_IS_SCRATCH) or f"{place}/".startswith(_CACHES):
            return True
        if len(parts) < 2:
            return False
        if parts[0] == "srv" or parts[:2] == ["var", "www"]:
            return not is_production(*parts) and not _SCRATCH_NAMES.isdisjoint(parts[2:])
        if everything and "site-packages" in parts[1:-1] and not is_production(*parts):
            return True  # a package, which pip installs again
        if parts[0] in _SYSTEM and parts[:2] != ["usr", "src"]:
            return False
    for part in parts:
        match _hint_of(part):
            case _PathHint.GIT:
                return place.endswith(".lock")  # a stale lock of git
            case _PathHint.KEPT:
                return False
            case _PathHint.PERHAPS_SCRATCH:
                return everything or not _SOURCE.search(place)
            case _PathHint.SCRATCH:
                return True
    return False


class _PathHint(Enum):
    """What one component of a path indicates about everything below it."""

    NOTHING = auto()
    GIT = auto()
    KEPT = auto()
    PERHAPS_SCRATCH = auto()
    SCRATCH = auto()


@lru_cache(maxsize=8192)
def _hint_of(part: str) -> _PathHint:
    if len(part) > _LONGEST_NAME_CHARS:
        return _PathHint.NOTHING
    if part == ".git":
        return _PathHint.GIT
    if is_production(part) or is_backup(part):
        return _PathHint.KEPT
    if part in _AMBIGUOUS_NAMES:
        return _PathHint.PERHAPS_SCRATCH
    if _has_scratch_name(part) or is_scratch(part):
        return _PathHint.SCRATCH
    return _PathHint.PERHAPS_SCRATCH if is_throwaway(part) else _PathHint.NOTHING


def _is_reproduction(parts: list[str]) -> bool:
    name = parts[-1]
    return (
        len(parts) <= 3
        and len(name) <= 128
        and _REPRODUCTION.fullmatch(name) is not None
        and _KEPT_AMONG.isdisjoint(parts)
    )


def _has_scratch_name(part: str) -> bool:
    return (
        part in _SCRATCH_NAMES
        or (len(part) > 1 and part.endswith(_SCRATCH_SUFFIXES))
        or any(fnmatchcase(part, pattern) for pattern in _SCRATCH_PATTERNS)
    )


def _is_catastrophe(place: str, parts: list[str], start: str | None) -> bool:
    """Return whether losing all of this path is SEVERE. Scratch paths are excluded before."""
    if not parts or set(parts) <= {".", ".."}:
        return True
    if start is not None and (place == start or start.startswith(place + "/")):
        return place not in ("/tmp", "/var/tmp")
    if parts[-1] == ".git":
        return True
    if any(map(is_production, parts)):
        return not any(part in _AMBIGUOUS_NAMES or _has_scratch_name(part) for part in parts)
    if any(is_backup(part) and (place.startswith("/") or part.endswith("s")) for part in parts):
        return True
    if place.startswith("/"):
        return _is_system_tree(parts)
    return parts[0].startswith("~") and (len(parts) == 1 or (len(parts) == 2 and parts[1] in _PERSONAL))


def _is_system_tree(parts: list[str]) -> bool:
    if len(parts) == 1:
        return parts[0] != "tmp"
    if parts[0] in _HOMES:
        return len(parts) == 2 or (len(parts) == 3 and parts[2] in _PERSONAL)
    if parts[:2] == ["var", "lib"]:
        return len(parts) <= 4  # data of databases and container engines
    if parts[0] == "root":
        return len(parts) == 2 and parts[1] in _PERSONAL
    return len(parts) == 2 and (parts[0] in _SYSTEM or parts[0] in _MOUNTS) and parts != ["var", "tmp"]
