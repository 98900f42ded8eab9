"""The scope of a task, as globs of paths, and the paths that are critical for any task.

A scope is a list of globs (`src/**`, `lib/helper.ex`, `/etc/nginx`): `*` and `?` match within a folder, `**` across
folders, and a glob that names a folder covers everything below it. A relative glob matches at any depth, since the
working directory of a session is often unknown.
"""

from functools import lru_cache
from typing import Literal

from haltline.detectors.commands.model import Badness, holds_one
from haltline.detectors.commands.paths import badness, canonical
from haltline.detectors.commands.rows import expression_of, texts_of
from haltline.schemas import expressions as re

Critical = Literal["", "critical", "grave"]
"""`grave`: a change takes over a machine or an account."""

_GRAVE = expression_of("a path is grave")
_SECRET = expression_of("a path is a secret")
_TEMPLATE = expression_of("a path is a template")
"""Not a secret itself, but its template, or code about secrets."""
_CHANGED_ONLY = re.compile(r"(?:^|/)\.git/|^/etc/")
_PUBLIC = ("/etc/passwd", "/etc/group", "/known_hosts", ".pub")
_HARMLESS = expression_of("a path in .git or /etc is harmless")
_HINTS = texts_of("signs of a critical path")
_DOT_ENV = re.compile(r"(?<![A-Za-z0-9])\.env")
"""Not `os.environ`, which occurs in many programs."""
_SYSTEM = re.compile(r"^/(?:usr|bin|sbin|lib\w*|opt|proc|sys|dev|nix|snap|System|Library)(?:/|$)")
_PROJECT = expression_of("a path is a project's description")
"""Files that are read for orientation in a project."""
_DEPENDENCIES = re.compile(r"(?:^|/)(?:site-packages|dist-packages|node_modules|\.venv|venv|deps|vendor)(?:/|$)")


_SHORT_CHARS = 256
"""Results are cached for texts up to this length: most are paths and short command lines."""
_CACHED_PATHS = 8192
"""Agents access the same paths repeatedly."""


def may_be_critical(text: str) -> bool:
    """Return whether a search for critical paths in a text is worthwhile."""
    return _short_may_be_critical(text) if len(text) <= _SHORT_CHARS else _may_be_critical(text)


def _may_be_critical(text: str) -> bool:
    return holds_one(text, _HINTS) or (".env" in text and _DOT_ENV.search(text) is not None)


_short_may_be_critical = lru_cache(maxsize=_CACHED_PATHS)(_may_be_critical)


@lru_cache(maxsize=_CACHED_PATHS)
def critical(path: str, *, changes: bool) -> Critical:
    """Return whether a canonical path is critical to change, or to read; empty: it is not."""
    if _TEMPLATE.search(path):
        return ""
    if _GRAVE.search(path):
        readable = not changes and (path in ("/etc/passwd", "/etc/group") or path.endswith(("known_hosts", ".pub")))
        return "critical" if readable else "grave"
    if _SECRET.search(path):
        return "critical"
    return "critical" if changes and _CHANGED_ONLY.search(path) and not _HARMLESS.search(path) else ""


def is_secret(path: str) -> bool:
    """Return whether a canonical path is that of a file with secrets."""
    return critical(path, changes=False) != "" and not path.endswith(_PUBLIC)


@lru_cache(maxsize=_CACHED_PATHS)
def is_incidental(path: str, *, changes: bool) -> bool:
    """Return whether any task may touch it: scratch; for reading, programs, libraries and a project's description."""
    if badness(path, everything=False) is Badness.SCRATCH or path in ("", ".", "/", "~") or path.startswith("/dev/"):
        return True
    return not changes and any(known.search(path) is not None for known in (_SYSTEM, _DEPENDENCIES, _PROJECT))


@lru_cache(maxsize=_CACHED_PATHS)
def in_scope(path: str, globs: tuple[str, ...], *, changes: bool) -> bool:
    """Return whether the globs cover a canonical path; reading a folder above one is covered too."""
    return any(glob and _covers(path, glob, changes=changes) for glob in globs)


def _covers(path: str, glob: str, *, changes: bool) -> bool:
    pattern, start = _compiled(glob)
    if pattern.match(path) is not None:
        return True
    if glob.startswith("/") and not path.startswith(("/", "~")) and any(p.match(path) for p in _tails(glob)):
        return True
    # `ls src` is above `src/api/**`; in a folder with an unknown location, the ends are compared.
    return not changes and bool(start) and (f"{start}/".startswith(f"{path}/") or path.endswith(f"/{start}"))


@lru_cache(maxsize=4096)
def _compiled(glob: str) -> tuple[re.Pattern[str], str]:
    """The glob as an expression, and the folders before its first wildcard."""
    glob = canonical(glob)
    start = re.split(r"[*?\[]", glob)[0]
    folders = start.rstrip("/") if start == glob else start.rpartition("/")[0]
    anywhere = "" if glob.startswith(("/", "~")) else "(?:.*/)?"
    return re.compile_given(f"{anywhere}{_expression(glob)}(?:/.*)?$", re.DOTALL), folders


@lru_cache(maxsize=1024)
def _tails(glob: str) -> tuple[re.Pattern[str], ...]:
    """An absolute glob relative to each folder above it: `/srv/app/src/**` is `src/**` in `/srv/app`."""
    parts = canonical(glob).strip("/").split("/")
    tails = ("/".join(parts[i:]) for i in range(1, len(parts)) if not parts[i].startswith("*"))
    return tuple(re.compile_given(f"{_expression(tail)}(?:/.*)?$", re.DOTALL) for tail in tails)


def _expression(glob: str) -> str:
    out = []
    for token in re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", glob):
        out.append({"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(token) or re.escape(token))
    return "".join(out)
