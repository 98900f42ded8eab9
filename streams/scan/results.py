"""What a scan finds in files, and what it knows of them from the last one."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Final

import orjson
from pydantic import TypeAdapter, ValidationError

import haltline
from haltline.interventions.agent.user_files import write_file
from haltline.schemas.policy import Policy
from haltline.streams.scan.prices import Spent


@dataclass(frozen=True)
class Shown:
    """One step around a finding, redacted and cut, for people."""

    number: int
    time_ms: int
    action: str
    what: str
    outcome: str


@dataclass(frozen=True)
class Waste:
    """Where a session would have been held, and what was spent from there to the next prompt or progress."""

    detector: str
    level: str
    reason: str
    number: int
    """The event, from 1 on."""
    time_ms: int
    steps: int
    """Calls and turns that came after it."""
    tokens: int
    cost_usd: float
    ms: int
    around: list[Shown]


@dataclass
class Scanned:
    """One session of a history."""

    session_id: str
    agent: str
    file: str
    project: str
    spent: list[Spent] = field(default_factory=list)
    """By day and model."""
    unpriced: list[str] = field(default_factory=list)
    """Models whose price is not known: their tokens are in no sum of costs."""
    began_ms: int = 0
    ended_ms: int = 0
    events: int = 0
    has_times: bool = True
    tokens: int = 0
    cost_usd: float = 0.0
    ms: int = 0
    waste: list[Waste] = field(default_factory=list)
    asks: list[str] = field(default_factory=list)
    """Acts that a person would have been asked about, in words."""
    refused: list[str] = field(default_factory=list)
    """What would have been refused without holding the session, in words."""
    hints: dict[str, int] = field(default_factory=dict)
    """What would have been told to the agent, by rule."""

    @property
    def models(self) -> dict[str, int]:
        """Tokens by model."""
        found: Counter[str] = Counter()
        for one in self.spent:
            found[one.model] += one.tokens
        return dict(found)

    @property
    def wasted_tokens(self) -> int:
        """Of all that is in `waste`."""
        return sum(one.tokens for one in self.waste)

    @property
    def wasted_usd(self) -> float:
        """As `wasted_tokens`, in US dollars."""
        return sum(one.cost_usd for one in self.waste)

    @property
    def wasted_ms(self) -> int:
        """As `wasted_tokens`, in milliseconds; idle time is cut."""
        return sum(one.ms for one in self.waste)


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
_FORM: Final = 2
"""Of what is kept: another one is read anew."""
MAX_TOKENS: Final = 2**53
"""What is written as JSON is not larger."""


def stamp_of(path: Path) -> tuple[int, int]:
    """The size and the time of a file; a database is also changed by what is in its log of changes."""
    stat, log = path.stat(), path.with_name(f"{path.name}-wal")
    return stat.st_size, max(stat.st_mtime_ns, log.stat().st_mtime_ns if log.exists() else 0)


def size_of(path: Path) -> int:
    """The bytes of a file; 0 for one that cannot be looked at."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


class Known:
    """What was found in files, kept between scans, one JSON object a line. A file that cannot be used is begun anew."""

    def __init__(self, file: Path | None, policy: Policy, *, fresh: bool = False) -> None:
        """`file`: None: nothing is kept. `fresh`: every file is read again, and what is found is kept."""
        self._file, self._read_by, self._fresh = file, read_by(policy), fresh
        self._found: dict[str, ScannedFile] = {}
        try:
            lines = b"" if file is None else file.read_bytes()
        except OSError:
            return
        for line in lines.splitlines():
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
        if found.is_recording and _is_text(found.path):
            self._found[found.path] = found
        return found

    def write(self) -> None:
        """Writes what is known, readable by its user alone. Raises OSError, which costs the next scan its time only."""
        if self._file is None:
            return
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(self._file, (orjson.dumps(asdict(one)) + b"\n" for one in self._found.values()))


def _is_text(path: str) -> bool:
    try:
        return bool(path.encode())
    except UnicodeEncodeError:
        return False


def read_by(policy: Policy) -> str:
    """What tells this release and policy from others."""
    return f"{haltline.__version__} {_FORM} {blake2b(policy.model_dump_json().encode(), digest_size=8).hexdigest()}"


def sessions_in(files: Sequence[ScannedFile], since_ms: int | None = None) -> list[Scanned]:
    """The sessions of files, those that ended before `since_ms` (epoch ms) left out, by when they began.

    What several files have of one session, as of its subagents, is one; a copy of a file does not count.
    """
    parts: dict[tuple[str, str], list[Scanned]] = {}
    for one in (one for file in files for one in file.sessions):
        of_session = parts.setdefault((one.agent, one.session_id), [])
        if all((one.began_ms, one.ended_ms, one.events, one.tokens)
               != (other.began_ms, other.ended_ms, other.events, other.tokens) for other in of_session):  # fmt: skip
            of_session.append(one)
    found = [one for one in map(_joined, parts.values()) if since_ms is None or one.ended_ms >= since_ms]
    return sorted(found, key=lambda one: (one.began_ms, one.session_id))


def _joined(parts: list[Scanned]) -> Scanned:
    """One session of what several files have of it; its place is that of the longest part."""
    if len(parts) == 1:
        return parts[0]
    hints: Counter[str] = Counter()
    for one in parts:
        hints.update(one.hints)
    return replace(
        max(parts, key=lambda one: one.events),
        spent=[spent for one in parts for spent in one.spent],
        unpriced=sorted({name for one in parts for name in one.unpriced}),
        began_ms=min(one.began_ms for one in parts),
        ended_ms=max(one.ended_ms for one in parts),
        events=sum(one.events for one in parts),
        tokens=sum(one.tokens for one in parts),
        cost_usd=sum(one.cost_usd for one in parts),
        ms=max(one.ms for one in parts),  # they work at the same time
        waste=[waste for one in parts for waste in one.waste],
        asks=list(dict.fromkeys(ask for one in parts for ask in one.asks)),
        refused=list(dict.fromkeys(refused for one in parts for refused in one.refused)),
        hints=dict(hints),
    )
