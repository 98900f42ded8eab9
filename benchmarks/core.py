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

import msgspec
import orjson
from rich.console import Console
from rich.progress import Progress

from benchmarks import command
from benchmarks.detector_timer import DetectorTimer
from benchmarks.quality.sessions import default_files, read
from benchmarks.reporting.core_report import (
    BOTH,
    CALIBRATION,
    CORE,
    DECODE,
    ENFORCING,
    FIRST,
    NOTHING,
    Cost,
    DetectorCost,
    Measured,
    States,
    show,
)
from benchmarks.rules import CORE as FIRST_RULES
from haltline.detectors import ALL
from haltline.interventions.levels.default_levels import default_mode
from haltline.schemas.decisions import Mode
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Policy, Rule
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
    _go(ways, len(events), rounds, "The core", console)
    return Measured(
        events=len(events),
        event_bytes=sum(map(len, values)) / len(values),
        sessions=len(states),
        rounds=rounds,
        costs={way.name: way.cost for way in ways},
        states=_states(list(states.values())),
    )


def profile(measured: Measured, files: Sequence[Path], *, share: int, rounds: int, seed: int, console: Console) -> None:
    """Add the cost of the core with some rules, and of each detector among all, on 1 of `share` sessions."""
    events = list(_mixed(files, 1, random.Random(seed), share))
    kept: dict[str, SessionState] = {}
    names = [detector.id for detector in ALL]
    timer = DetectorTimer()

    def way(name: str, core: Core, states: dict[str, SessionState]) -> _Way:
        def start() -> Callable[[range], object]:
            states.clear()
            return lambda piece: decide(core, states, map(events.__getitem__, piece), piece.start)

        return _Way(name, start)

    def timed() -> Callable[[range], object]:
        states: dict[str, SessionState] = {}

        def work(piece: range) -> None:
            timer.begin()
            decide(timer.core, states, map(events.__getitem__, piece), piece.start)
            timer.end(piece)

        return work

    enforcing = [name for name in names if default_mode(name) is not Mode.SHADOW]
    ways = [
        way(NOTHING, _core(()), {}),
        way(FIRST, _core(FIRST_RULES), {}),
        way(ENFORCING, _core(enforcing), {}),
        way(CORE, _core(names), kept),
    ]
    _go([*ways, _Way("each detector", timed)], len(events), rounds, "Detectors", console)
    measured.profile_events = len(events)
    measured.by_rules = {way.name: way.cost for way in ways}
    costs = timer.costs(len(events))
    for name in names:
        ns, observed = costs.get(name, (0.0, 0.0))
        sizes = [_size(state, name) for state in kept.values()]
        measured.detectors.append(
            DetectorCost(
                detector=name,
                ns=ns,
                observed=observed,
                state_bytes_median=round(median(sizes)),
                state_bytes_max=max(sizes),
            )
        )


def _go(ways: Sequence[_Way], events: int, rounds: int, what: str, console: Console) -> None:
    """Process each piece in every way before the next piece, so that other load affects all ways alike.

    Garbage is collected between pieces, as the worker does between batches.
    """
    pieces = [range(start, min(start + _PIECE, events)) for start in range(0, events, _PIECE)]
    with Progress(console=console, disable=not console.is_terminal) as progress, collecting() as collector:
        task = progress.add_task(what, total=rounds * len(pieces))
        for _ in range(rounds):
            for way in ways:
                way.begin()
            for piece in pieces:
                for way in ways:
                    way.run(piece)
                collector.tick()
                progress.advance(task)


def _mixed(files: Sequence[Path], copies: int, rng: random.Random, share: int = 1) -> Iterator[ActionEvent]:
    """The events of one of `share` sessions: in order within a session, sessions interleaved at random."""
    recorded = [[event for _, event in known.session.events] for known in read(files)][::share]
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


def _core(detectors: Sequence[str]) -> Core:
    """A core with these detectors only."""
    return Core(Policy(rules={d.id: Rule(enabled=False) for d in ALL if d.id not in detectors}))


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
        parts_median={
            part: round(median(_bytes(getattr(s, part)) for s in states)) for part in SessionState.__struct_fields__
        },
    )


def _size(state: SessionState, detector: str) -> int:
    memory = state.detectors.get(detector)
    return 0 if memory is None else _bytes(memory)


def _bytes(value: object) -> int:
    """The size of a part of a state before compression."""
    return len(msgspec.msgpack.encode(value))


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0, or 2 if there are no sessions to read."""
    args = _options().parse_args(arguments)
    try:
        files, progress = args.files or default_files(), Console(stderr=True)
        common = {"rounds": args.rounds, "seed": args.seed, "console": progress}
        measured = measure(files, copies=args.copies, **common)
        if args.profile_share:
            profile(measured, files, share=args.profile_share, **common)
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
    parser.add_argument(
        "--profile-share", type=int, default=4, metavar="N", help="profile detectors on 1 of N sessions; 0: not (4)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    command.run(main)
