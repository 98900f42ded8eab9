"""Recorded sessions, and what is known of how they went: by a judge who read them, or by their source."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import orjson

from haltline.streams.replay.backtest import Recorded
from haltline.streams.replay.traces import UnreadableTrace, read_traces

SHARED = Path(__file__).parents[3] / "shared"
"""Beside the repository: other people's sessions, which are not copied into it."""
TRACES = SHARED / "traces"
JUDGED = SHARED / "judged"
FILES = ("miniswe", "taubench", "whowhen", "spotter")
WHOLE = "whole.jsonl.gz"
"""The judged sessions once more, with whole texts."""
VERDICTS = "verdicts.jsonl"

_BY_MODEL = frozenset({"nyuctf", "sweagent"})
"""Sources with sessions of several agents: each is a source of its own."""


class Kind(Enum):
    """What would have been right to do with a session."""

    STOP = "stop"
    """Judged a runaway that should be paused."""
    HINT = "hint"
    """Judged a runaway for which a hint is enough."""
    SOUND = "sound"
    """Judged to be no runaway: a stop is a false alarm."""
    SOLVED = "solved"
    """Nobody judged it, and its source says that it reached its goal: a stop is very likely a false alarm."""
    OTHER = "other"
    """Judged unclear; or nobody judged it, and its source does not say that it reached its goal."""


@dataclass(frozen=True)
class Judgement:
    """What a judge said of one session."""

    kind: Kind
    pattern: str | None = None
    """The class of runaway."""
    begins: int = 0
    """Number of the event with which it begins."""
    signal: int | None = None
    """Number of the first event at which what came up to there is reason enough to step in."""
    ends: int | None = None
    """Number of the event with which it ends; None: it goes on to the end of the session."""


@dataclass(frozen=True)
class Known:
    """One recorded session, and what is known of it."""

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
    return [TRACES / f"{name}.jsonl.gz" for name in FILES]


def files_in(folder: Path) -> list[Path]:
    """The files of recorded sessions in a folder, without those beside them and without verdicts."""
    files = sorted([*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")])
    return [file for file in files if file.name not in {VERDICTS, WHOLE} and ".sessions." not in file.name]


def read(files: Sequence[Path], judgements: Mapping[str, Judgement] | None = None) -> Iterator[Known]:
    """The sessions of all files; `judgements` by session.

    Raises:
        OSError: a file cannot be read.
        UnreadableTrace: a line cannot be used.

    """
    for file in files:
        for session in read_traces(file):
            yield Known(_source(session.session_id, file), session, (judgements or {}).get(session.session_id))


def read_judgements(folder: Path) -> dict[str, Judgement]:
    """What judges said, by session. Raises as `read`."""
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
    """Where a session comes from, by its id or else by its file; of some sources with the agent."""
    source, colon, rest = session_id.partition(":")
    if not colon:
        return file.name.removesuffix(".gz").removesuffix(".jsonl")
    return f"{source}:{rest.split('/')[0].split(':')[0]}" if source in _BY_MODEL else source
