"""`python -m benchmarks.core`: the pure core alone, in one process, on recorded sessions.

No broker and no changelog. Sessions are interleaved at random, as on a topic, and every copy of them has its own
names. A calibration (orjson reads the same bytes) runs in the same rounds: on a shared machine compare with it, and
use the figures per second of processor time.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median

import orjson
from rich.console import Console
from rich.progress import Progress

from benchmarks import command
from benchmarks.quality.sessions import default_files, read
from benchmarks.reporting.core_report import BOTH, CALIBRATION, CORE, DECODE, Cost, Measured, States, show
from haltline.schemas.events import ActionEvent
from haltline.schemas.wire import decode_event
from haltline.streams.engine.core import Core, Position, SessionState
from haltline.streams.replay.traces import UnreadableTrace
from haltline.streams.runtime.garbage import collecting
from haltline.streams.sessions import state_codec

_PARTITIONS = 8
_PIECE = 1000
"""Number of events that one way processes before the next way processes them."""


class _Way:
    """One way of processing the events: `work` receives one piece after another."""

    def __init__(self, name: str, start: Callable[[], Callable[[range], object]]) -> None:
        self.name = name
        self._start = start
        self._work = start()
        self._best: dict[range, tuple[int, int]] = {}

    def begin(self) -> None:
        self._work = self._start()

    def run(self, piece: range) -> None:
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        self._work(piece)
        cpu, wall = time.process_time_ns() - cpu, time.perf_counter_ns() - wall
        before = self._best.get(piece, (wall, cpu))
        self._best[piece] = min(before[0], wall), min(before[1], cpu)

    @property
    def cost(self) -> Cost:
        events = sum(map(len, self._best))
        walls, cpus = zip(*self._best.values(), strict=True)
        return Cost(name=self.name, wall_ns=sum(walls) / events, cpu_ns=sum(cpus) / events)


def measure(files: Sequence[Path], *, copies: int, rounds: int, seed: int, console: Console) -> Measured:
    """Measure the core with every detector, decoding alone, and the calibration."""
    events = list(_mixed(files, copies, random.Random(seed)))
    values = [event.model_dump_json(exclude_none=True).encode() for event in events]
    core = Core()
    states: dict[str, SessionState] = {}

    def decided() -> Callable[[range], object]:
        states.clear()
        return lambda piece: decide(core, states, map(events.__getitem__, piece), piece.start)

    def both() -> Callable[[range], object]:
        others: dict[str, SessionState] = {}
        return lambda piece: decide(core, others, (decode_event(values[i]) for i in piece), piece.start)

    ways = [
        _Way(CALIBRATION, lambda: lambda piece: [None for i in piece if not orjson.loads(values[i])]),
        _Way(DECODE, lambda: lambda piece: [None for i in piece if not decode_event(values[i])]),
        _Way(CORE, decided),
        _Way(BOTH, both),
    ]
    _go(ways, len(events), rounds, console)
    return Measured(
        events=len(events),
        event_bytes=sum(map(len, values)) / len(values),
        sessions=len(states),
        rounds=rounds,
        costs={way.name: way.cost for way in ways},
        states=_states(list(states.values())),
    )


def _go(ways: Sequence[_Way], events: int, rounds: int, console: Console) -> None:
    """Process each piece in every way before the next piece, so that other load affects all ways alike.

    Garbage is collected between pieces, as the worker does between batches.
    """
    pieces = [range(start, min(start + _PIECE, events)) for start in range(0, events, _PIECE)]
    with Progress(console=console, disable=not console.is_terminal) as progress, collecting() as collector:
        task = progress.add_task("The core", total=rounds * len(pieces))
        for _ in range(rounds):
            for way in ways:
                way.begin()
            for piece in pieces:
                for way in ways:
                    way.run(piece)
                collector.tick()
                progress.advance(task)


def _mixed(files: Sequence[Path], copies: int, rng: random.Random) -> Iterator[ActionEvent]:
    """The events of all sessions: in order within a session, sessions interleaved at random."""
    recorded = [[event for _, event in known.session.events] for known in read(files)]
    waiting = [
        [_renamed(event, f"~{copy}") for event in reversed(events)] for copy in range(copies) for events in recorded
    ]
    while waiting:
        at = rng.randrange(len(waiting))
        yield waiting[at].pop()
        if not waiting[at]:
            waiting[at] = waiting[-1]
            waiting.pop()


def _renamed(event: ActionEvent, suffix: str) -> ActionEvent:
    return event.model_copy(update={"session_id": event.session_id + suffix, "event_id": event.event_id + suffix})


def decide(core: Core, states: dict[str, SessionState], events: Iterable[ActionEvent], first: int) -> None:
    """Decide on the events, of which the first has this offset; `states` are by session."""
    for offset, event in enumerate(events, start=first):
        session_id = event.session_id
        at = Position("actions", offset % _PARTITIONS, offset)
        states[session_id] = core.on_event(states.get(session_id), event, at).state


def _states(states: Sequence[SessionState]) -> States:
    began = time.process_time_ns()
    values = [state_codec.encode(state) for state in states]
    encoded = time.process_time_ns()
    for value in values:
        state_codec.decode(value)
    decoded = time.process_time_ns()
    sizes = list(map(len, values))
    return States(
        sessions=len(states),
        bytes_median=round(median(sizes)),
        bytes_max=max(sizes),
        largest=states[sizes.index(max(sizes))].session_id,
        encode_us=(encoded - began) / len(states) / 1000,
        decode_us=(decoded - encoded) / len(states) / 1000,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0, or 2 if there are no sessions to read."""
    args = _options().parse_args(arguments)
    try:
        files, progress = args.files or default_files(), Console(stderr=True)
        common = {"rounds": args.rounds, "seed": args.seed, "console": progress}
        measured = measure(files, copies=args.copies, **common)
    except (OSError, UnreadableTrace) as error:
        print(f"benchmarks.core: expected recorded sessions, got {error}", file=sys.stderr)
        return 2
    if args.json:
        print(orjson.dumps(measured.as_json(), option=orjson.OPT_INDENT_2).decode())
    else:
        show(measured, Console() if sys.stdout.isatty() else Console(width=160))
    return 0


def _options() -> argparse.ArgumentParser:
    parser = command.options("benchmarks.core", __doc__, "--copies 5 --rounds 5")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="recorded traces (../shared/traces)")
    parser.add_argument("--copies", type=int, default=2, help="copies of each session (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order of sessions")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    command.run(main)
