"""Recorded sessions with what was right for them, from a judge who read them or from their source."""

import gzip
import tarfile
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TypeVar

import orjson

from haltline.schemas.events import ActionEvent
from haltline.schemas.events import Kind as EventKind
from haltline.streams.importing import claude_code
from haltline.streams.importing.reading import Source, content_of
from haltline.streams.importing.steps import Recording, Step
from haltline.streams.replay.backtest import Recorded
from haltline.streams.replay.traces import START_MS, UnreadableTrace, read_traces

_Of = TypeVar("_Of", Step, ActionEvent)

SHARED = Path(__file__).parents[3] / "shared"
"""The folder beside the repository with third-party sessions, which are not copied into it."""
TRACES = SHARED / "traces"
JUDGED = SHARED / "judged"
MODERN = SHARED / "modern"
TERMINAL = SHARED / "terminal"
SIGNALS = SHARED / "live"
FILES = ("miniswe", "taubench", "whowhen", "spotter")
DONE_TOOL = "task_done"
"""The tool with which modern agents report that they are done."""
VERDICTS = "verdicts.jsonl"
CALL_MS = 15_000
"""The time between two calls of a source without times, in milliseconds."""

_BY_MODEL = frozenset({"nyuctf", "sweagent"})
"""Sources with sessions of several agents: each is a source of its own."""


class Kind(Enum):
    """The right reaction to a session."""

    STOP = "stop"
    """A runaway that should be stopped."""
    HINT = "hint"
    """A runaway for which a hint is enough."""
    SOUND = "sound"
    """No runaway: a refused call is a false alarm."""
    SOLVED = "solved"
    """Solved according to its source: a refused call is very likely a false alarm."""
    OTHER = "other"
    """Neither judged nor solved."""


@dataclass(frozen=True)
class Judgement:
    """Where a judge saw the runaway."""

    pattern: str | None = None
    """The class of runaway."""
    begins: int = 0
    """Number of the event with which it begins."""
    ends: int | None = None
    """Number of the event with which it ends; None: it continues to the end of the session."""


@dataclass(frozen=True)
class Known:
    """One recorded session, with those of its subagents, and its label."""

    group: str
    """The set of sessions that it belongs to."""
    source: str
    sessions: tuple[Recorded, ...]
    """Its own first; calls are numbered over all."""
    kind: Kind = Kind.OTHER
    signal: int | None = None
    """Number of the first event at which the session so far justifies a stop."""
    judgement: Judgement = Judgement()
    whole: "Sequence[NumberedStep]" = ()
    """Its steps with whole results, where the source has them."""

    @property
    def session(self) -> Recorded:
        return self.sessions[0]

    @property
    def session_id(self) -> str:
        return self.session.session_id

    def steps(self) -> "list[NumberedStep]":
        """What the agent did, in order, for a guard to see."""
        return list(self.whole or _steps(self.session))


NumberedStep = tuple[int, Step]
"""A step with the number of its call, or of the last one."""

Signals = Mapping[str, tuple[str, int | None]]
"""By session: what was right (`stop`, `hint`, `sound`, `solved`), and the number of the event that justifies a stop."""


def default_files() -> list[Path]:
    """Return files of recorded sessions, those with whole texts first: a session is read from the first that has it."""
    return [
        *(MODERN / f"{name}.jsonl.gz" for name in ("miniswe", "trae")),
        *(TRACES / f"{name}.jsonl.gz" for name in FILES),
    ]


GROUPS: Mapping[str, Sequence[Path]] = {
    "judged": [JUDGED / "whole.jsonl.gz"],
    "modern": [MODERN / "trae.jsonl.gz"],
    "terminal": [TERMINAL / "native.tar.gz"],
    "solved": [MODERN / "miniswe.jsonl.gz", JUDGED / "more.jsonl.gz", *(TRACES / f"{name}.jsonl.gz" for name in FILES)],
}
"""The sets beside the repository, each with a file `NAME.signals.json`."""


def read_groups(names: Sequence[str] = tuple(GROUPS)) -> list[Known]:
    """Read the sets that are beside the repository. Modern ones are there twice, once without their `task_done`.

    Raises:
        OSError: a file cannot be read.
        UnreadableTrace: a line cannot be used.

    """
    judgements = {**read_judgements(JUDGED / VERDICTS), **read_judgements(TERMINAL / VERDICTS)}
    found: list[Known] = []
    for name in names:
        signals = read_signals(SIGNALS / f"{name}.signals.json")
        those = read(GROUPS[name], signals, judgements, group=name)
        found += those
        found += [without_done(known) for known in those] if name == "modern" else []
    return found


def read(
    files: Sequence[Path],
    signals: Signals | None = None,
    judgements: Mapping[str, Judgement] | None = None,
    *,
    group: str = "",
) -> list[Known]:
    """The sessions of all files, or those that `signals` names; one that is in several is read from the first.

    A file is a recorded trace, or a native stream of Claude Code, or an archive of such; its name is then the session.
    Raises like `read_groups`.
    """
    known: dict[str, Known] = {}
    for file in files:
        for found in _read(file):
            name = found.session_id
            if name in known or (signals is not None and name not in signals):
                continue
            verdict, signal = (signals or {}).get(name, (None, None))
            kind = Kind(verdict) if verdict is not None else _by_label(found.session.label)
            judged = (judgements or {}).get(name, found.judgement)
            known[name] = replace(found, group=group, kind=kind, signal=signal, judgement=judged)
    return list(known.values())


def without_done(known: Known) -> Known:
    """A session without the calls that report that it is done: no rule may depend on those."""
    calls = {event.call_id for _, event in known.session.events if event.action == DONE_TOOL}
    events = [(seq, event) for seq, event in known.session.events if event.call_id not in calls]
    return replace(
        known, group=f"{known.group} without {DONE_TOOL}", sessions=(replace(known.session, events=tuple(events)),)
    )


def read_signals(path: Path) -> Signals:
    """Return what was right for each session, from a JSON object `{SESSION: [VERDICT, SIGNAL]}`."""
    return {name: (verdict, signal) for name, (verdict, signal) in orjson.loads(path.read_bytes()).items()}


def read_judgements(path: Path) -> dict[str, Judgement]:
    """Return where judges saw runaways, by session. Raises like `read_groups`."""
    judgements: dict[str, Judgement] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            row = orjson.loads(line)
            name = row["session_id"] if "session_id" in row else row["name"]
            judgements[name] = Judgement(row["class"], row["begins_seq"] or 0, row.get("ends_seq"))
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableTrace(f"{path}:{number}: expected a verdict, got {line[:80]!r}: {error!r}") from None
    return judgements


def _read(file: Path) -> Iterator[Known]:
    if file.name.endswith(".tar.gz"):
        with tempfile.TemporaryDirectory() as folder, tarfile.open(file) as archive:
            archive.extractall(folder, filter="data")
            for stream in sorted(Path(folder).rglob("*.jsonl")):
                yield _native(stream)
    elif _is_native(file):
        yield _native(file)
    else:
        for session in read_traces(file):
            yield Known("", _source(session.session_id, file), (session,))


def _is_native(file: Path) -> bool:
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
        first = next(iter(lines), b"{}")
    try:
        return "type" in orjson.loads(first)
    except orjson.JSONDecodeError:
        return False


def _native(file: Path) -> Known:
    """Return the session of a native stream."""
    skipped: list[str] = []
    [part] = claude_code.parts(Source(file, content_of(file, skipped), skipped))
    steps, name = list(part.steps), file.name.removesuffix(".jsonl")
    sessions: dict[str, list[tuple[int, ActionEvent]]] = {name: []}
    events = list(Recording(name, "claude-code", steps).events(START_MS))
    for number, event in _numbered(events):
        sessions.setdefault(event.session_id, []).append((number, event))
    recorded = tuple(Recorded(session_id, tuple(events)) for session_id, events in sessions.items())
    return Known("", name.partition("__")[0], recorded, whole=list(_numbered(steps)))


def _numbered(steps: Iterable[_Of]) -> Iterator[tuple[int, _Of]]:
    """Number calls in order, and results as their calls; what is neither has the number of the last call.

    Some servers give several calls one id: their results come in their order.
    """
    open_calls: dict[str | None, deque[int]] = {}
    count = 0
    for step in steps:
        number = max(0, count - 1)
        if step.kind is EventKind.PROPOSED:
            number = count
            open_calls.setdefault(step.call_id, deque()).append(number)
            count += 1
        elif step.kind is EventKind.COMPLETED and (waiting := open_calls.get(step.call_id)):
            number = waiting.popleft()
        yield number, step


def _steps(session: Recorded) -> Iterator[NumberedStep]:
    """Return the steps of a recorded trace: a turn of the model before the call that has its tokens."""
    usage = {event.call_id: event.usage for _, event in session.events if event.kind is EventKind.COMPLETED}
    for number, event in session.events:
        time_ms = event.time if session.clock == "real" else None
        step = Step(kind=event.kind, call_id=event.call_id, action=event.action, args=event.args, time_ms=time_ms)
        if event.kind is EventKind.PROPOSED:
            if (used := usage.get(event.call_id)) is not None:
                yield number, Step(kind=EventKind.MODEL_TURN, usage=used, time_ms=time_ms)
            yield number, step
        elif event.kind is EventKind.COMPLETED:
            step.outcome, step.error, step.duration_ms = event.outcome, event.error, event.duration_ms
            step.output = _output(event)
            yield number, step


def _output(event: ActionEvent) -> str:
    """Return the result as far as it is recorded; of one that was cut, its digest keeps it apart from others."""
    head = event.output_head or ""
    return head if (event.output_bytes or 0) <= len(head) + 2 else f"{head} [{event.output_digest or ''}]"


def _by_label(label: str | None) -> Kind:
    return Kind.SOLVED if label in {"resolved", "solved"} else Kind.OTHER


def _source(session_id: str, file: Path) -> str:
    """The source of a session, by its id or else by its file; for some sources including the agent."""
    source, colon, rest = session_id.partition(":")
    if not colon:
        return file.name.removesuffix(".gz").removesuffix(".jsonl")
    if source == "iso":  # REPOSITORY/HARNESS/MODEL/...
        return f"{rest.split('/')[1]}:{rest.split('/')[2].removeprefix('us-anthropic-')}"
    return f"{source}:{rest.split('/')[0].split(':')[0]}" if source in _BY_MODEL else source
