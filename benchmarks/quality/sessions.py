"""Recorded sessions with what is known of how they went."""

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import orjson

from haltline.streams.backtest import Recorded
from haltline.streams.traces import read_traces

HERE = Path(__file__).parent
TRACES = HERE.parents[2] / "shared" / "traces"
"""Beside the repository: other people's sessions, which are not copied into it."""
FILES = ("miniswe", "taubench", "whowhen", "spotter")


class Fate(Enum):
    """How a session ended, as far as its source says."""

    SOUND = "sound"
    """Resolved or solved: a stop would have been a false alarm. A proxy, not a truth."""
    FAILED = "failed"
    """Unresolved or unsolved, for whatever reason: few of these ran away."""
    UNKNOWN = "unknown"


_FATES = {"resolved": Fate.SOUND, "solved": Fate.SOUND, "unresolved": Fate.FAILED, "unsolved": Fate.FAILED}


@dataclass(frozen=True)
class Known:
    """One recorded session, and what its source says of it."""

    source: str
    session: Recorded
    loop_checks: int | None = None
    """How often the agents' own ledger was asked whether they go round in circles; None: never."""
    loops: int = 0
    """How often it said yes."""
    first_loop_seq: int | None = None

    @property
    def fate(self) -> Fate:
        return _FATES.get(self.session.label or "", Fate.UNKNOWN)

    @property
    def session_id(self) -> str:
        return self.session.session_id


def default_files() -> list[Path]:
    return [TRACES / f"{name}.jsonl.gz" for name in FILES]


def read(files: Sequence[Path]) -> Iterator[Known]:
    """The sessions of all files.

    Raises:
        OSError: a file cannot be read.
        UnreadableTrace: a line cannot be used.

    """
    for file in files:
        source = file.name.removesuffix(".gz").removesuffix(".jsonl")
        ledgers = _ledgers(file, source)
        for session in read_traces(file):
            said = ledgers.get(session.session_id, {})
            yield Known(
                source,
                session,
                loop_checks=said.get("ledger_checks"),
                loops=said.get("ledger_in_loop") or 0,
                first_loop_seq=said.get("first_in_loop_seq"),
            )


def _ledgers(file: Path, source: str) -> dict[str, dict[str, Any]]:
    beside = file.with_name(file.name.replace(source, f"{source}.sessions", 1))
    if not beside.exists():
        return {}
    with gzip.open(beside) if beside.suffix == ".gz" else beside.open("rb") as lines:
        rows = [orjson.loads(line) for line in lines if line.strip()]
    return {row["session_id"]: row["labels"] for row in rows if (row.get("labels") or {}).get("ledger_checks")}
