"""Where agents keep their histories, on Linux, macOS and Windows."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from stat import S_ISDIR
from typing import Final, NamedTuple, TypeAlias

OnError: TypeAlias = Callable[[OSError], object]


class Home(NamedTuple):
    """Where one agent keeps its histories."""

    agent: str
    variable: str
    """The environment variable that names another folder; empty: there is none."""
    folders: tuple[str, ...]
    """Below the user's home, or beginning with a name of `_BASES`."""
    files: tuple[str, ...]
    """Globs below each of these folders."""
    before: tuple[str, ...] = ()
    """Of older releases, whose sessions newer ones take over: looked at where nothing else is found."""


_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_STORAGE = "User/globalStorage"

HOMES: Final = (
    Home("claude-code", "CLAUDE_CONFIG_DIR", (".claude", ".config/claude"), ("projects/**/*.jsonl",)),
    Home("codex", "CODEX_HOME", (".codex",), ("sessions/**/rollout-*.jsonl", "archived_sessions/rollout-*.jsonl")),
    Home("gemini-cli", "", (".gemini",), ("tmp/*/chats/session-*.json", "tmp/*/chats/session-*.jsonl")),
    Home("qwen-code", "", (".qwen",), ("projects/*/chats/*.jsonl", "tmp/*/chats/*.jsonl")),
    Home("kimi", "", (".kimi", ".kimi-code"), ("sessions/*/*/wire.jsonl", "sessions/*/*/agents/*/wire.jsonl")),
    Home("droid", "", (".factory",), ("sessions/**/*.jsonl",)),
    Home("openhands", "", (".openhands",), ("trajectories/**/*.json",)),
    Home(
        "cline",
        "",
        (*(f"CONFIG/{editor}/{_STORAGE}/saoudrizwan.claude-dev" for editor in _EDITORS), ".cline/data"),
        ("tasks/*/api_conversation_history.json", "sessions/*/*.messages.json"),
    ),
    Home(
        "roo",
        "",
        tuple(f"CONFIG/{editor}/{_STORAGE}/rooveterinaryinc.roo-cline" for editor in _EDITORS),
        ("tasks/*/api_conversation_history.json",),
    ),
    Home("goose", "", ("DATA/goose", "DATA/Block/goose"), ("sessions/sessions.db",), ("sessions/*.jsonl",)),
    Home("opencode", "", ("DATA/opencode",), ("opencode.db",), ("storage/session/*/ses_*.json",)),
    Home("amp", "", ("DATA/amp",), ("threads/T-*.json",)),
    Home("pi", "PI_CODING_AGENT_DIR", (".pi/agent",), ("sessions/**/*.jsonl",)),
    Home("copilot-cli", "COPILOT_HOME", (".copilot",), ("session-state/*/events.jsonl", "session-state/*.jsonl")),
    Home("cursor", "", (f"CONFIG/Cursor/{_STORAGE}",), ("state.vscdb",)),
    Home("aider", "", ("",), (".aider.chat.history.md",)),
    Home("mini-swe-agent", "MSWEA_GLOBAL_CONFIG_DIR", ("CONFIG/mini-swe-agent",), ("**/*.traj.json",)),
)
"""Agents whose histories lie in the user's home."""

IN_PROJECTS: Final = (
    "opencode.db",
    "sessions.db",
    "state.vscdb",
    ".aider.chat.history.md",
    "*.traj",
    "*.traj.json",
    "trajectory_*.json",
    "*.eval",
    "*.jsonl",
    "*.jsonl.gz",
    "*.json",
)
"""Names of histories and exports within a folder that is named."""
_BESIDE = ".settings.json"
"""Of Droid's sessions, read with each."""
_PASSED_OVER = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", "site-packages"})


def bases(home: Path, environ: Mapping[str, str], platform: str = sys.platform) -> dict[str, list[Path]]:
    """The folders for which `CONFIG` and `DATA` stand."""
    xdg = {
        "CONFIG": Path(environ.get("XDG_CONFIG_HOME") or home / ".config"),
        "DATA": Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share"),
    }
    if platform == "darwin":
        support = home / "Library" / "Application Support"
        return {name: [support, folder] for name, folder in xdg.items()}
    if platform == "win32":
        roaming = Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
        local = Path(environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
        return {"CONFIG": [roaming, xdg["CONFIG"]], "DATA": [roaming, local, xdg["DATA"]]}
    return {name: [folder] for name, folder in xdg.items()}


def histories(
    home: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    platform: str = sys.platform,
    on_error: OnError = lambda _: None,
) -> Iterator[tuple[str, Path]]:
    """Each history in the user's home, with its agent's name, in order of the table and then of the path.

    Of one as JSON and as JSON lines the latter, into which Gemini CLI takes over the former. `on_error` as in `within`.
    """
    root = Path.home() if home is None else home
    known = bases(root, environ, platform)
    for place in HOMES:
        named = environ.get(place.variable, "") if place.variable else ""
        folders = [Path(named)] if named else [folder for text in place.folders for folder in _below(root, known, text)]
        for globs in (place.files, place.before):
            found = {file for folder in folders for glob in globs for file in _files(folder, glob, on_error)}
            yield from ((place.agent, file) for file in sorted(found) if file.with_name(f"{file.name}l") not in found)
            if found:
                break


def within(paths: Iterable[Path], on_error: OnError) -> Iterator[Path]:
    """The files that are named, and those of folders that look like histories or exports.

    `on_error` is called for each path that is not there, and each folder that cannot be listed.
    """
    for path in paths:
        try:
            is_folder = S_ISDIR(path.stat().st_mode)
        except OSError as error:
            on_error(error)
            continue
        if is_folder:
            yield from _below_folder(path, IN_PROJECTS, on_error, _PASSED_OVER)
        else:
            yield path


def _below(root: Path, known: Mapping[str, list[Path]], text: str) -> list[Path]:
    first, _, rest = text.partition("/")
    return [base / rest for base in known[first]] if first in known else [root / text]


def _files(folder: Path, glob: str, on_error: OnError) -> Iterator[Path]:
    above, is_deep, name = glob.rpartition("**/")
    if is_deep:
        if os.path.isdir(folder / above):
            yield from _below_folder(folder / above, (name,), on_error)
        return
    try:
        yield from (file for file in folder.glob(glob) if not os.path.isdir(file))
    except OSError as error:
        on_error(error)


def _below_folder(
    top: Path, globs: Iterable[str], on_error: OnError, passed_over: frozenset[str] = frozenset()
) -> Iterator[Path]:
    """The files below a folder whose names are of these globs. Links to folders are not followed.

    `os.walk` and `Path.glob` of Python 3.11 fail in a folder that is a thousand deep.
    """
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as listed:
                entries = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in listed)
        except OSError as error:
            on_error(error)
            continue
        for name, is_folder in entries:
            if not is_folder and not name.endswith(_BESIDE) and any(fnmatchcase(name, glob) for glob in globs):
                yield folder / name
        waiting += [folder / name for name, is_folder in reversed(entries) if is_folder and name not in passed_over]
