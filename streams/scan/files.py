"""One history in, its sessions with what was wasted out."""

import gc
from dataclasses import replace
from pathlib import Path
from typing import Final

from haltline.detectors.features.tool_classifier import Classifier
from haltline.interventions.agent.user_files import open_file
from haltline.schemas import expressions as re
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Policy
from haltline.streams.engine.core import Core
from haltline.streams.engine.plugins import installed
from haltline.streams.importing.database import MAGIC
from haltline.streams.importing.formats import START_MS, Imported, clean_name
from haltline.streams.importing.reading import NotReadable
from haltline.streams.importing.steps import STEP_MS, Turn
from haltline.streams.importing.values import moment
from haltline.streams.scan.prices import Prices, Spent
from haltline.streams.scan.results import Scanned, ScannedFile, read_by, stamp_of
from haltline.streams.scan.waste import judged

FORMS: Final = {"claude-code": "claude-code", "mini-swe-agent": "mini-swe-agent"}
"""The format of an agent's own histories; those of others are told by their content."""
_DIRECTORY = re.compile(rb'"(?:cwd|working_dir|workspace_root)"\s*:\s*"([^"]+)"')
_TIME = re.compile(rb'"timestamp"\s*:\s*"([^"]{10,40})"')
_BEFORE_MS: Final = 3_600_000
_HEAD_BYTES = 65_536
_MAX_PATH_CHARS = 4096


def read_file(agent: str, path: Path, policy: Policy) -> ScannedFile:
    """Reads and judges one file. A file that is none, or is broken, is reported and ends nothing."""
    try:
        return _read(agent, path, policy)
    except NotReadable as error:
        return ScannedFile(str(path), skipped=[str(error)], is_recording=False)
    except OSError as error:
        return ScannedFile(str(path), skipped=[f"{path}: {error.strerror or error}"], is_recording=False)


def _read(agent: str, path: Path, policy: Policy) -> ScannedFile:
    size, mtime_ns = stamp_of(path)
    key = read_by(policy)
    found = ScannedFile(str(path), size=size, mtime_ns=mtime_ns, read_by=key)
    prices, head = Prices(), _head(path)
    imported = Imported(path, form=FORMS.get(agent), price=prices.of)
    trees: dict[str, list[ActionEvent]] = {}
    root_of: dict[str, str] = {}
    for event in imported.events(_start_ms(head)):
        above = event.root_session_id or event.parent_session_id
        if above is not None:
            root_of.setdefault(event.session_id, root_of.get(above, above))
        trees.setdefault(root_of.get(event.session_id, event.session_id), []).append(event)
    core, classifier = _rules(key, policy)
    file, project = clean_name(str(path), _MAX_PATH_CHARS), project_of(agent, path, head)
    folders = {clean_name(name): shown_folder(folder) for name, folder in imported.folders.items()}
    for session_id, events in trees.items():
        events.sort(key=lambda event: event.time)
        one = Scanned(session_id, agent or events[0].agent_id, file, folders.get(session_id, project))
        one.has_times = imported.untimed < len(events) and events[0].time != START_MS + STEP_MS
        one.spent = _spent(session_id, prices, events, has_times=one.has_times)
        one.unpriced = sorted({spent.model for spent in one.spent} & {clean_name(name) for name in prices.unknown})
        found.sessions.append(judged(core, classifier, events, one))
    found.skipped = [f"{path}: {why}" for why in imported.skipped]
    return found


def _spent(session_id: str, prices: Prices, events: list[ActionEvent], *, has_times: bool) -> list[Spent]:
    """What a session used by day and model; by day alone if only its events tell it, as those of a trace."""
    by_day = [
        replace(one, model=clean_name(one.model), day=one.day if has_times else "")
        for (of, _, _), one in prices.spent.items()
        if clean_name(of) == session_id
    ]
    if not by_day and any(event.usage is not None for event in events):
        told = Prices()
        for event in events:
            if event.usage is not None and (event.usage.tokens or event.usage.cost_usd):
                told.of(Turn(session_id, "", event.usage, (0, 0), event.time))
        by_day = [replace(one, day=one.day if has_times else "") for one in told.spent.values()]
    return by_day


def shown_folder(folder: str) -> str:
    """A folder without secrets, and below the user's home with ~."""
    home = str(Path.home())
    below = folder.startswith(home) and folder[len(home) : len(home) + 1] in ("", "/", "\\")
    return clean_name(f"~{folder[len(home) :]}" if below and len(home) > 1 else folder)


def _start_ms(head: bytes) -> int:
    """When steps without a time happened: before the first that has one."""
    found = _TIME.search(head)
    first_ms = moment(found[1].decode(errors="replace")) if found else None
    return START_MS if first_ms is None else first_ms - _BEFORE_MS


def project_of(agent: str, path: Path, head: bytes | None = None) -> str:
    """What the work was on: the working directory that the history begins with, or else what its path says.

    Claude Code names its folders after the project's path, Gemini CLI after the project. Without secrets.
    """
    folder = path.parent.parent if agent == "gemini-cli" else path.parent
    if named := _working_directory(_head(path) if head is None else head):
        return shown_folder(named)
    while agent == "claude-code" and folder.parent.name != "projects" and folder.parent != folder:
        folder = folder.parent
    return clean_name(folder.name or str(path.parent))


def _head(path: Path) -> bytes:
    with open_file(path) as file:
        return file.read(_HEAD_BYTES)


def _working_directory(head: bytes) -> str:
    """The folder that the agent was started in; "": the beginning of the file does not tell."""
    found = None if head.startswith(MAGIC) else _DIRECTORY.search(head)
    return found[1].decode(errors="replace").replace("\\\\", "\\").rstrip("/\\") if found else ""


_RULES: dict[str, tuple[Core, Classifier]] = {}


def _rules(key: str, policy: Policy) -> tuple[Core, Classifier]:
    """One core for all files of a process: rules take some 50 ms to build."""
    if key not in _RULES:
        _RULES[key] = Core(policy, installed()), Classifier(policy)
        gc.freeze()  # they stay: the collector need not look at them again
    return _RULES[key]
