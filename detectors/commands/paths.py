"""Paths: one canonical form, and how bad it is to lose what is there.

Decided here, since nobody else says it:

- Everything in an unknown working directory (`rm -rf *`, `rm -rf .`), and the working directory or a parent of it
  where it is known, is SEVERE unless it is scratch.
- `/prod/build` is PLAIN: production is stronger than a scratch name below it; `build/prod` is SCRATCH.
- `/tmp/x` is SCRATCH, `/tmp` and `/tmp/*` are PLAIN: others work there too.
- Places of backups are SEVERE (`/data/backup`, `backups`), a copy that somebody made beside the work
  (`backup`, `app_backup`, `x.bak`) is PLAIN.
- Below `/srv` and `/var/www`, where things are served from, only names that cannot mean anything else are scratch
  (`node_modules`, `__pycache__`): a `dist` there is what visitors see.
- Names that also name source code (`build`, `target`, `dist`, `out`) do not make a single source file scratch.
- A path that starts with an unknown variable is PLAIN unless a name in it says scratch; `/$X`, removed with all
  that is in it, is SEVERE, since an empty variable makes it `/`.

Misses: symbolic links and mounts; whether a file is under version control; `~name` as somebody's home; case-insensitive
file systems; Windows paths.
"""

import re
from enum import Enum, auto
from fnmatch import fnmatchcase
from functools import lru_cache

from haltline.detectors.commands.model import Badness
from haltline.detectors.commands.names import is_backup, is_production, is_scratch, is_throwaway

_BELOW_IS_SCRATCH = (
    "/tmp/", "/var/tmp/", "/private/tmp/", "/dev/shm/", "/var/folders/", "/private/var/folders/", "/run/user/",
)  # fmt: skip
_CACHES = ("/var/cache/", "/var/lib/apt/lists/")
_PLAIN = re.compile(r"/?(?:[\w+@-][\w.+@-]*/)*[\w+@-][\w.+@-]*")
"""A path that is canonical as it is, as nearly all are."""
_SYSTEM = frozenset((
    "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "sbin", "srv", "sys", "usr", "var", "System",
    "Library", "Applications",
))  # fmt: skip
_MOUNTS = frozenset(("mnt", "media", "Volumes"))
_HOMES = frozenset(("home", "Users"))
_PERSONAL = frozenset((
    ".ssh", ".gnupg", ".aws", ".kube", ".config", ".password-store", "Documents", "Desktop", "Pictures", "Library",
    "Mail", "Maildir",
))  # fmt: skip
_CRITICAL_FILES = frozenset((
    "/etc/passwd", "/etc/shadow", "/etc/group", "/etc/sudoers", "/etc/fstab", "/etc/hosts", "/etc/resolv.conf",
    "/etc/ssh/sshd_config",
))  # fmt: skip
_SCRATCH_NAMES = frozenset((
    "node_modules", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox",
    ".venv", "venv", ".eggs", "htmlcov", ".coverage", "coverage.xml", ".cache", ".npm", ".next", ".nuxt", ".turbo",
    ".parcel-cache", ".svelte-kit", ".angular", ".gradle", ".terraform", ".ipynb_checkpoints", "DerivedData",
    "_build", ".tmp", "nohup.out", ".DS_Store", ".eslintcache", "CMakeFiles", "CMakeCache.txt", ".nyc_output",
    ".vite", ".webpack", ".sass-cache", ".bundle", "_cacache", ".dmypy.json", ".pytype", ".swc", "__pypackages__",
))  # fmt: skip
_AMBIGUOUS_NAMES = frozenset(("build", "dist", "target", "out", "tmp", "temp", "Temp", "coverage", "obj", "wheelhouse"))
_SCRATCH_SUFFIXES = (
    ".pyc", ".pyo", ".o", ".obj", ".class", ".tmp", ".temp", ".swp", ".swo", "~", ".egg-info", ".gcda", ".gcno",
    ".orig", ".rej", ".tsbuildinfo", ".dSYM", ".part", ".lcov",
)  # fmt: skip
_SCRATCH_PATTERNS = (".coverage.*", "_build_*", "cmake-build-*", "bazel-*", "*-tmp", "tmp-*", "tmp_*", "*_tmp")
_SOURCE = re.compile(
    r"\.(?:py|pyi|c|h|cc|cpp|hpp|go|rs|java|kt|ts|tsx|js|jsx|rb|php|cs|swift|sql|sh|tf|ya?ml|toml|md)$"
)
_ALL_OF_IT = re.compile(r"(?:\*+|\.\*|\{,\.\}\*|\.\[!\.\]\*|\.\?\?\*)")
_UNKNOWN_START = ("$", "<")


_SHORT_CHARS = 256


def canonical(path: str, cwd: str | None = None) -> str:
    """The path without `.`, `..`, doubled and trailing slashes, below `cwd` if it is relative and that is known."""
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
            absolute, parts = True, ["home"]  # the parent of a home
        elif parts and parts[-1] != ".." and not (len(parts) == 1 and parts[0].startswith(_UNKNOWN_START)):
            parts.pop()
        elif not absolute:
            parts.append("..")
    joined = "/".join(parts)
    if joined.startswith("~") and not absolute and not path.startswith("~"):
        joined = "./" + joined  # a file of that name, not a home
    return f"/{joined}" if absolute else joined or "."


_short_canonical = lru_cache(maxsize=8192)(_canonical)
"""An agent comes back to the same paths."""


def badness(path: str, *, everything: bool, start: str | None = None) -> Badness:
    """How bad it is to lose a canonical path; with `everything`, also all that is below it.

    `start` is the working directory in which the session stands, canonical, where it is known.
    """
    place = path
    while place[-1:] in "*]" and _ALL_OF_IT.fullmatch(place.rpartition("/")[2]):
        head = place.rpartition("/")[0]
        place = head or ("/" if place.startswith("/") else ".")
    # `/etc/*` without its subdirectories is all of it too; `*` where one stands is some files.
    everything = everything or (place not in (path, ".", start))
    parts = place.strip("/").split("/") if place != "/" else []
    if _is_scratch(place, parts, everything=everything):
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
        if parts[0] in _SYSTEM and parts[:2] != ["usr", "src"]:
            return False
    for part in parts:
        match _hint_of(part):
            case _PathHint.GIT:
                return place.endswith(".lock")  # left by a git that died
            case _PathHint.KEPT:
                return False
            case _PathHint.PERHAPS_SCRATCH:
                return everything or not _SOURCE.search(place)
            case _PathHint.SCRATCH:
                return True
    return False


class _PathHint(Enum):
    """What one part of a path says of what is below it."""

    NOTHING = auto()
    GIT = auto()
    KEPT = auto()
    PERHAPS_SCRATCH = auto()
    SCRATCH = auto()


@lru_cache(maxsize=8192)
def _hint_of(part: str) -> _PathHint:
    if part == ".git":
        return _PathHint.GIT
    if is_production(part) or is_backup(part):
        return _PathHint.KEPT
    if part in _AMBIGUOUS_NAMES:
        return _PathHint.PERHAPS_SCRATCH
    if _has_scratch_name(part) or is_scratch(part):
        return _PathHint.SCRATCH
    return _PathHint.PERHAPS_SCRATCH if is_throwaway(part) else _PathHint.NOTHING


def _has_scratch_name(part: str) -> bool:
    return (
        part in _SCRATCH_NAMES
        or (len(part) > 1 and part.endswith(_SCRATCH_SUFFIXES))
        or any(fnmatchcase(part, pattern) for pattern in _SCRATCH_PATTERNS)
    )


def _is_catastrophe(place: str, parts: list[str], start: str | None) -> bool:
    """Whether all of this place is more than one thing among many. Scratch has been told apart before."""
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
        return len(parts) <= 4  # the data of databases and container engines
    if parts[0] == "root":
        return len(parts) == 2 and parts[1] in _PERSONAL
    return len(parts) == 2 and (parts[0] in _SYSTEM or parts[0] in _MOUNTS) and parts != ["var", "tmp"]
