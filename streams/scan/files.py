"""One history in, its sessions with what was wasted out."""

import gc
from collections import Counter
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
from haltline.streams.importing.formats import Imported, clean_name
from haltline.streams.importing.reading import NotReadable
from haltline.streams.scan.prices import Prices
from haltline.streams.scan.results import MAX_TOKENS, Scanned, ScannedFile, read_by, stamp_of
from haltline.streams.scan.waste import judged

FORMS: Final = {"claude-code": "claude-code", "mini-swe-agent": "mini-swe-agent"}
"""The format of an agent's own histories; those of others are told by their content."""
_DIRECTORY = re.compile(rb'"(?:cwd|working_dir|workspace_root)"\s*:\s*"([^"]+)"')
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
    prices = Prices()
    imported = Imported(path, form=FORMS.get(agent), price=prices.of)
    trees: dict[str, list[ActionEvent]] = {}
    root_of: dict[str, str] = {}
    for event in imported.events():
        above = event.root_session_id or event.parent_session_id
        if above is not None:
            root_of.setdefault(event.session_id, root_of.get(above, above))
        trees.setdefault(root_of.get(event.session_id, event.session_id), []).append(event)
    core, classifier = _rules(key, policy)
    models: Counter[str] = Counter()
    for model, tokens in prices.tokens.items():
        models[clean_name(model)] += min(tokens, MAX_TOKENS)
    for session_id, events in trees.items():
        events.sort(key=lambda event: event.time)
        file = clean_name(str(path), _MAX_PATH_CHARS)
        one = Scanned(session_id, agent or events[0].agent_id, file, project_of(agent, path))
        one.models, one.unpriced = dict(models), sorted({clean_name(model) for model in prices.unknown})
        one.has_times = imported.untimed < len(events)
        found.sessions.append(judged(core, classifier, events, one))
    found.skipped = [f"{path}: {why}" for why in imported.skipped]
    return found


def project_of(agent: str, path: Path) -> str:
    """What the work was on: the working directory that the history begins with, or else what its path says.

    Claude Code names its folders after the project's path, Gemini CLI after the project. Without secrets.
    """
    folder = path.parent.parent if agent == "gemini-cli" else path.parent
    if agent != "claude-code" and (named := _working_directory(path)):
        return clean_name(named)
    while agent == "claude-code" and folder.parent.name != "projects" and folder.parent != folder:
        folder = folder.parent
    return clean_name(folder.name or str(path.parent))


def _working_directory(path: Path) -> str:
    """The name of the folder that the agent was started in; "": the beginning of the file does not tell."""
    with open_file(path) as file:
        head = file.read(_HEAD_BYTES)
    found = None if head.startswith(MAGIC) else _DIRECTORY.search(head)
    return re.split(rb"[/\\]+", found[1].rstrip(b"/\\"))[-1].decode(errors="replace") if found else ""


_RULES: dict[str, tuple[Core, Classifier]] = {}


def _rules(key: str, policy: Policy) -> tuple[Core, Classifier]:
    """One core for all files of a process: rules take some 50 ms to build."""
    if key not in _RULES:
        _RULES[key] = Core(policy, installed()), Classifier(policy)
        gc.freeze()  # they stay: the collector need not look at them again
    return _RULES[key]
