"""Histories in, sessions with what was wasted out: several files at once, and each file once."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import orjson
from pydantic import TypeAdapter, ValidationError

import haltline
from haltline.detectors.features.tool_classifier import Classifier
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Policy
from haltline.streams.engine.core import Core
from haltline.streams.engine.plugins import installed
from haltline.streams.importing.database import MAGIC
from haltline.streams.importing.formats import Imported
from haltline.streams.importing.reading import NotReadable
from haltline.streams.scan.prices import Prices
from haltline.streams.scan.waste import Scanned, judged

FORMS: Final = {"claude-code": "claude-code", "mini-swe-agent": "mini-swe-agent"}
"""The format of an agent's own histories; those of others are told by their content."""
_DIRECTORY = re.compile(rb'"(?:cwd|working_dir|workspace_root)"\s*:\s*"([^"]+)"')
_HEAD_BYTES = 65_536
_SMALL_BYTES = 4 * 2**20
"""So little in all is read in this process: another one takes a second to start."""


@dataclass
class ScannedFile:
    """What was found in one file."""

    path: str
    sessions: list[Scanned] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """What could not be read, by its place."""
    is_recording: bool = True
    size: int = 0
    mtime_ns: int = 0
    read_by: str = ""
    """The release and the policy by which it was judged."""


_FILES: Final = TypeAdapter(ScannedFile)


def scan(
    files: Iterable[tuple[str, Path]],
    policy: Policy,
    known: "Known",
    *,
    processes: int | None = None,
    step: Callable[[int], object] = lambda _: None,
) -> Iterator[ScannedFile]:
    """What is in each file, which comes with its agent's name ("": as the content says), in any order.

    Files that have not changed since they are in `known` are not read again. `step` is called with the bytes of each.
    """
    to_read: list[tuple[int, str, Path]] = []
    for agent, path in files:
        try:
            found, size = known.of(path), path.stat().st_size
        except OSError as error:
            yield ScannedFile(str(path), skipped=[f"{path}: {error.strerror or error}"], is_recording=False)
            continue
        if found is not None:
            step(size)
            yield found
        else:
            to_read.append((size, agent, path))
    to_read.sort(key=lambda one: -one[0])  # the largest first, or it is waited for at the end
    workers = min(processes or os.cpu_count() or 1, len(to_read))
    if workers <= 1 or sum(size for size, _, _ in to_read) < _SMALL_BYTES:
        for size, agent, path in to_read:
            yield known.add(read_file(agent, path, policy))
            step(size)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = pool.map(read_file, *zip(*((a, p, policy) for _, a, p in to_read), strict=True), chunksize=1)
        for (size, _, _), one in zip(to_read, jobs, strict=True):
            yield known.add(one)
            step(size)


def read_file(agent: str, path: Path, policy: Policy) -> ScannedFile:
    """Reads and judges one file. A file that is none, or is broken, is reported and ends nothing."""
    try:
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
    except NotReadable as error:
        return ScannedFile(str(path), skipped=[str(error)], is_recording=False)
    except OSError as error:
        return ScannedFile(str(path), skipped=[f"{path}: {error.strerror or error}"], is_recording=False)
    core, classifier = _rules(key, policy)
    for session_id, events in trees.items():
        events.sort(key=lambda event: event.time)
        one = Scanned(session_id, agent or events[0].agent_id, str(path), project_of(agent, path))
        one.models, one.unpriced = dict(prices.tokens), sorted(prices.unknown)
        one.has_times = imported.untimed < len(events)
        found.sessions.append(judged(core, classifier, events, one))
    found.skipped = [f"{path}: {why}" for why in imported.skipped]
    return found


def project_of(agent: str, path: Path) -> str:
    """What the work was on: the working directory that the history begins with, or else what its path says.

    Claude Code names its folders after the project's path, Gemini CLI after the project.
    """
    folder = path.parent.parent if agent == "gemini-cli" else path.parent
    if agent != "claude-code" and (named := _working_directory(path)):
        return named
    while agent == "claude-code" and folder.parent.name != "projects" and folder.parent != folder:
        folder = folder.parent
    return folder.name or str(path.parent)


def _working_directory(path: Path) -> str:
    """The name of the folder that the agent was started in; "": the beginning of the file does not tell."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    found = None if head.startswith(MAGIC) else _DIRECTORY.search(head)
    return re.split(rb"[/\\]+", found[1].rstrip(b"/\\"))[-1].decode(errors="replace") if found else ""


def stamp_of(path: Path) -> tuple[int, int]:
    """The size and the time of a file; a database is also changed by what is in its log of changes."""
    stat, log = path.stat(), path.with_name(f"{path.name}-wal")
    return stat.st_size, max(stat.st_mtime_ns, log.stat().st_mtime_ns if log.exists() else 0)


class Known:
    """What was found in files, kept between scans, one JSON object a line. A file that cannot be used is begun anew."""

    def __init__(self, file: Path | None, policy: Policy, *, fresh: bool = False) -> None:
        """`file`: None: nothing is kept. `fresh`: every file is read again, and what is found is kept."""
        self._file, self._read_by, self._fresh = file, read_by(policy), fresh
        self._found: dict[str, ScannedFile] = {}
        if file is None or not file.exists():
            return
        for line in file.read_bytes().splitlines():
            try:
                one = _FILES.validate_json(line)
            except ValidationError:  # of another release, or cut off
                continue
            self._found[one.path] = one

    def of(self, path: Path) -> ScannedFile | None:
        """What was found when nothing has changed since. Raises OSError when the file is not there."""
        stamp, found = stamp_of(path), self._found.get(str(path))
        if self._fresh or found is None or (found.size, found.mtime_ns, found.read_by) != (*stamp, self._read_by):
            return None
        return found

    def add(self, found: ScannedFile) -> ScannedFile:
        """Keeps it, and returns it."""
        if found.is_recording:
            self._found[found.path] = found
        return found

    def write(self) -> None:
        """Writes what is known, readable by its user alone. Raises OSError, which costs the next scan its time only."""
        if self._file is None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        new = self._file.with_suffix(f".{os.getpid()}")
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            for one in self._found.values():
                out.write(orjson.dumps(asdict(one)) + b"\n")
        new.replace(self._file)


def read_by(policy: Policy) -> str:
    """What tells this release and policy from others."""
    return f"{haltline.__version__} {blake2b(policy.model_dump_json().encode(), digest_size=8).hexdigest()}"


_RULES: dict[str, tuple[Core, Classifier]] = {}


def _rules(key: str, policy: Policy) -> tuple[Core, Classifier]:
    """One core for all files of a process: rules take some 50 ms to build."""
    if key not in _RULES:
        _RULES[key] = Core(policy, installed()), Classifier(policy)
    return _RULES[key]


def sessions_in(files: Sequence[ScannedFile], since_ms: int | None = None) -> list[Scanned]:
    """The sessions of files, those that ended before `since_ms` (epoch ms) left out, by when they began."""
    found = [one for file in files for one in file.sessions if since_ms is None or one.ended_ms >= since_ms]
    return sorted(found, key=lambda one: (one.began_ms, one.session_id))
