"""`python -m benchmarks.groups`: the cost of rules in shadow, in one group with the others or in a group of their own.

The worker's main path without a broker, on interleaved recorded sessions: decoding, deciding, and encoding states as at
each checkpoint. All ways process the same pieces of records in turns; the best round of each piece counts. Compare ways
with each other, by processor time.
"""

import gc
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from rich.console import Console

from benchmarks import command
from benchmarks.quality.sessions import default_files
from benchmarks.reporting.table import Table
from haltline.schemas.decisions import Mode
from haltline.schemas.policy import Policy, Rule
from haltline.schemas.topics import Topics
from haltline.streams.engine.core import Core
from haltline.streams.engine.groups import Runs
from haltline.streams.replay.records import LogRecord
from haltline.streams.replay.replay_worker import ReplayMeter
from haltline.streams.replay.traces import UnreadableTrace, read_traces
from haltline.streams.sessions.processor import SessionProcessor

TRIED = ("goal_drift", "step_review", "combination")
IN_SHADOW = Policy(rules={name: Rule(mode=Mode.SHADOW) for name in TRIED})
WAYS = {
    "five in shadow, all": (IN_SHADOW, Runs.ALL),
    "five in shadow, enforced": (IN_SHADOW, Runs.ENFORCED),
    "five in shadow, shadow": (IN_SHADOW, Runs.SHADOW),
    "default policy, all": (Policy(), Runs.ALL),
    "default policy, enforced": (Policy(), Runs.ENFORCED),
    "default policy, shadow": (Policy(), Runs.SHADOW),
}
_PIECE = 500
"""Records between two checkpoints."""
_TOPICS = Topics()


class _Nowhere:
    def send(self, *_: object, **__: object) -> None:
        """Drop the record: sending costs the same for all."""


class Way:
    """One group that processes the records from the beginning."""

    def __init__(self, core: Core) -> None:
        self.values: dict[bytes, bytes] = {}
        self._pipeline = SessionProcessor(
            core, topics=_TOPICS, partitions=1, load=self.values.get, outbox=_Nowhere(), metrics=ReplayMeter()
        )

    def take(self, piece: Sequence[LogRecord]) -> int:
        """Process a piece and its checkpoint; return nanoseconds of processor time."""
        began = time.process_time_ns()
        self._pipeline.process(piece)
        self.values |= {key: state or b"" for _, key, state in self._pipeline.changed()}
        return time.process_time_ns() - began


def records(files: Sequence[Path], *, every: int, longest: int) -> list[LogRecord]:
    """The first `longest` events of one in `every` sessions of each file, interleaved."""
    reported = [
        [event for _, event in session.events[:longest]]
        for file in files
        for session in islice(read_traces(file), 0, None, every)
    ]
    turns = (queue[number] for number in range(longest) for queue in reported if number < len(queue))
    return [
        LogRecord(_TOPICS.actions, 0, offset, event.time, event.session_id.encode(), event.to_json())
        for offset, event in enumerate(turns)
    ]


def measure(log: Sequence[LogRecord], rounds: int) -> Iterator[tuple[str, float, int]]:
    """Yield each way with its microseconds of processor time per record, and its bytes of state at the end."""
    cores = {name: Core(policy, runs=runs) for name, (policy, runs) in WAYS.items()}
    pieces = [log[at : at + _PIECE] for at in range(0, len(log), _PIECE)]
    best = {name: [sys.maxsize] * len(pieces) for name in WAYS}
    sizes: dict[str, int] = {}
    for number in range(rounds):
        ways = {name: Way(core) for name, core in cores.items()}
        order = [*WAYS][number % len(WAYS) :] + [*WAYS][: number % len(WAYS)]
        gc.collect()
        for at, piece in enumerate(pieces):
            for name in order:
                best[name][at] = min(best[name][at], ways[name].take(piece))
        sizes = {name: sum(map(len, way.values.values())) for name, way in ways.items()}
    for name, took in best.items():
        yield name, sum(took) / len(log) / 1000, sizes[name]


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0, or 2 if there are no sessions to read."""
    parser = command.options("benchmarks.groups", __doc__, "--rounds 6")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="recorded traces (../shared/traces)")
    parser.add_argument("--every", type=int, default=8, metavar="N", help="one of N sessions (%(default)s)")
    parser.add_argument("--longest", type=int, default=150, help="events of a session (%(default)s)")
    parser.add_argument("--rounds", type=int, default=6, help="(%(default)s)")
    args = parser.parse_args(arguments)
    try:
        log = records(args.files or default_files(), every=args.every, longest=args.longest)
    except (OSError, UnreadableTrace) as error:
        print(f"benchmarks.groups: expected recorded sessions, got {error}", file=sys.stderr)
        return 2
    rows: list[list[str]] = []
    base: dict[str, tuple[float, int]] = {}
    for name, cpu_us, state in measure(log, args.rounds):
        policy = name.partition(",")[0]
        of_us, of_bytes = base.setdefault(policy, (cpu_us, state))
        of_all = f"{cpu_us / of_us:.2f}", f"{state / max(of_bytes, 1):.2f}"
        rows.append([name, f"{cpu_us:.1f}", of_all[0], f"{state / 1024:,.0f}", of_all[1]])
    columns = ["policy, group", "us of processor time per event", "of all", "KiB of state", "of all"]
    title = f"{len(log):,} events of {len({record.key for record in log})} sessions"
    Table(title, columns, rows).show(Console(width=120))
    return 0


if __name__ == "__main__":
    sys.exit(main())
