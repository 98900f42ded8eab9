"""Recorded sessions with their labels, from a judge who read them or from their source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import orjson

from haltline.streams.replay.backtest import Recorded
from haltline.streams.replay.traces import UnreadableTrace, read_traces

SHARED = Path(__file__).parents[3] / "shared"
"""The folder beside the repository with third-party sessions, which are not copied into it."""
TRACES = SHARED / "traces"
JUDGED = SHARED / "judged"
MODERN = SHARED / "modern"
FILES = ("miniswe", "taubench", "whowhen", "spotter")
WHOLE = "whole.jsonl.gz"
"""The judged sessions with whole texts, preferred to the others."""
DONE_TOOL = "task_done"
"""The tool with which modern agents report that they are done."""
VERDICTS = "verdicts.jsonl"

_BY_MODEL = frozenset({"nyuctf", "sweagent"})
"""Sources with sessions of several agents: each is a source of its own."""


class Kind(Enum):
    """The right reaction to a session."""

    STOP = "stop"
    """Judged a runaway that should be paused."""
    HINT = "hint"
    """Judged a runaway for which a hint is enough."""
    SOUND = "sound"
    """Judged to be no runaway: a stop is a false alarm."""
    SOLVED = "solved"
    """Not judged, but solved according to its source: a stop is very likely a false alarm."""
    MODERN = "modern"
    """Of a modern agent, by a mechanical label: it keeps verifying a finished task, and should be paused."""
    MODERN_SOUND = "modern sound"
    """Any other session of a modern agent: a stop counts as a false alarm unless a judge finds it right."""
    OTHER = "other"
    """Judged unclear, or not judged and not solved according to its source."""


@dataclass(frozen=True)
class Judgement:
    """A judge's label of one session."""

    kind: Kind
    pattern: str | None = None
    """The class of runaway."""
    begins: int = 0
    """Number of the event with which it begins."""
    signal: int | None = None
    """Number of the first event at which the session so far justifies an intervention."""
    ends: int | None = None
    """Number of the event with which it ends; None: it continues to the end of the session."""


@dataclass(frozen=True)
class Known:
    """One recorded session and its label."""

    source: str
    session: Recorded
    judgement: Judgement | None = None

    @property
    def kind(self) -> Kind:
        if self.judgement is not None:
            return self.judgement.kind
        return Kind.SOLVED if self.session.label in {"resolved", "solved"} else Kind.OTHER

    @property
    def session_id(self) -> str:
        return self.session.session_id


def default_files() -> list[Path]:
    """Return the default files, those with whole texts first: a session is read from the first file that has it."""
    return [
        *(MODERN / f"{name}.jsonl.gz" for name in ("miniswe", "trae")),
        *(TRACES / f"{name}.jsonl.gz" for name in FILES),
    ]


def files_in(folder: Path) -> list[Path]:
    """The files of recorded sessions in a folder, without those beside them and without verdicts; whole texts first."""
    files = sorted([*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")], key=lambda file: (file.name != WHOLE, file))
    return [file for file in files if file.name != VERDICTS and ".sessions." not in file.name]


def read(files: Sequence[Path], judgements: Mapping[str, Judgement] | None = None) -> list[Known]:
    """The sessions of all files; `judgements` are by session, those of modern agents are read with their file.

    A session in several files is read from the first one; its label from any that has one.

    Raises:
        OSError: a file cannot be read.
        UnreadableTrace: a line cannot be used.

    """
    known: dict[str, Known] = {}
    for file in files:
        said = {**(judgements or {}), **_modern(file)}
        for session in read_traces(file):
            name = session.session_id
            before = known.get(name)
            if before is None:
                known[name] = Known(_source(name, file), session, said.get(name))
            elif before.session.label is None and session.label is not None:
                known[name] = replace(before, session=replace(before.session, label=session.label))
    return list(known.values())


def without_done(known: Known) -> Known:
    """A session of a modern agent without the calls that report that it is done: no rule may depend on those."""
    calls = {event.call_id for _, event in known.session.events if event.action == DONE_TOOL}
    events = [(seq, event) for seq, event in known.session.events if event.call_id not in calls]
    return replace(
        known, source=f"{known.source}, without {DONE_TOOL}", session=replace(known.session, events=tuple(events))
    )


def _modern(file: Path) -> dict[str, Judgement]:
    """Return the labels of modern agents' sessions, from the file beside them."""
    beside = file.with_name(f"{file.name.partition('.')[0]}.sessions.jsonl")
    if file.parent.name != MODERN.name or not beside.exists():
        return {}
    rows = map(orjson.loads, beside.read_bytes().splitlines())
    return {
        row["session_id"]: Judgement(Kind.MODERN, row["runaway"], signal=row["signal_seq"])
        if row["runaway"]
        else Judgement(Kind.MODERN_SOUND)
        for row in rows
    }


def read_judgements(folder: Path) -> dict[str, Judgement]:
    """Return the judges' labels by session. Raises like `read`."""
    path = folder / VERDICTS
    judgements: dict[str, Judgement] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            row = orjson.loads(line)
            judgements[row["session_id"]] = Judgement(
                kind=_KINDS[row["verdict"], row["grade"] if row["verdict"] == "runaway" else None],
                pattern=row["class"],
                begins=row["begins_seq"] or 0,
                signal=row["signal_seq"],
                ends=row.get("ends_seq"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableTrace(f"{path}:{number}: expected a verdict, got {line[:80]!r}: {error!r}") from None
    return judgements


_KINDS = {
    ("runaway", "stop"): Kind.STOP,
    ("runaway", "nudge"): Kind.HINT,
    ("sound", None): Kind.SOUND,
    ("unclear", None): Kind.OTHER,
}


def _source(session_id: str, file: Path) -> str:
    """The source of a session, by its id or else by its file; for some sources including the agent."""
    source, colon, rest = session_id.partition(":")
    if not colon:
        return file.name.removesuffix(".gz").removesuffix(".jsonl")
    if source == "iso":  # REPOSITORY/HARNESS/MODEL/...
        return f"{rest.split('/')[1]}:{rest.split('/')[2].removeprefix('us-anthropic-')}"
    return f"{source}:{rest.split('/')[0].split(':')[0]}" if source in _BY_MODEL else source
