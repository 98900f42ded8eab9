"""`python -m benchmarks.progress`: what the measure of progress takes for an event, by itself and with what reads it.

Each recorded session is gone over in four ways, one after another, and of each the best round counts: on a machine
that does other things, too, compare with the first way, which is everything that happens to an event without a
rule. What the measure shares with other rules, such as whether a command changes anything, counts in full here.
"""

import argparse
import gc
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks import command
from benchmarks.quality.sessions import JUDGED, default_files, files_in, read
from haltline.detectors.features.novelty import Novelty
from haltline.detectors.features.observation import CallTracker, Observation
from haltline.detectors.features.observation_protocol import Observed
from haltline.detectors.features.tool_classifier import Classifier
from haltline.detectors.session.stagnation import Stagnation
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Policy
from haltline.streams.replay.traces import UnreadableTrace

AIM_US = 10.0
"""Of processor time for an event: the measure, its model and its detector together."""
_DETECTOR = Stagnation()


class _Nothing(Novelty):
    """A measure that measures nothing."""

    def call_of(self, act: Observed) -> list[int]:  # noqa: ARG002 - as the measure is asked
        return []


def _without(act: Observation, _state: object) -> None:
    act.novelty = None  # nobody takes the result in


def _measured(act: Observation, _state: object) -> None:
    act.novelty  # noqa: B018 - takes the result in


def _scored(act: Observation, _state: object) -> None:
    if act.novelty is not None:
        _DETECTOR.model.score(act.novelty)


def _detected(act: Observation, state: object) -> None:
    _DETECTOR.observe(state, act)  # type: ignore[arg-type]  # the state that it made


_WAYS: dict[str, Callable[[Observation, object], None]] = {
    "without it": _without,
    "the measure": _measured,
    "and the model": _scored,
    "and the detector": _detected,
}
ALONE, *_REST = _WAYS
WHOLE = _REST[-1]


@dataclass(kw_only=True)
class Measured:
    """Processor time, microseconds for an event."""

    sessions: int
    events: int
    steps: int
    """Results that were measured."""
    us: dict[str, float] = field(default_factory=dict)
    """By way: of the whole loop."""
    state_bytes: int = 0
    """Of the measure at the end of a session: the largest."""

    @property
    def added_us(self) -> float:
        """What the measure, its model and its detector add to the loop."""
        return self.us[WHOLE] - self.us[ALONE]


def measure(sessions: Sequence[Sequence[ActionEvent]], *, rounds: int) -> Measured:
    """Every session in every way, `rounds` times."""
    classifier = Classifier(Policy())
    best: dict[tuple[str, int], int] = {}
    steps = largest = 0
    gc.collect()
    gc.freeze()  # the events are not of the loop: its collections need not look at them
    for turn in range(rounds):
        for number, events in enumerate(sessions):
            for name in _WAYS:
                began = time.process_time_ns()
                novelty = _go(events, classifier, name)
                took = time.process_time_ns() - began
                best[name, number] = min(best.get((name, number), took), took)
            if turn == 0:
                steps, largest = steps + novelty.steps, max(largest, len(msgspec.msgpack.encode(novelty)))
    gc.unfreeze()
    total = sum(map(len, sessions))
    us = {name: sum(best[name, number] for number in range(len(sessions))) / total / 1000 for name in _WAYS}
    return Measured(sessions=len(sessions), events=total, steps=steps, us=us, state_bytes=largest)


def _go(events: Sequence[ActionEvent], classifier: Classifier, name: str) -> Novelty:
    look, state = _WAYS[name], _DETECTOR.start()
    calls = CallTracker(novelty=_Nothing() if name == ALONE else Novelty())
    for event in events:
        phase, call = calls.phase(event)
        act = Observation(event, classifier, phase, calls, call)
        look(act, state)
        calls.note(act)
    return calls.novelty


def show(measured: Measured, console: Console) -> None:
    alone = measured.us[ALONE]
    table = Table(
        title=f"{measured.events:,} events of {measured.sessions:,} sessions, {measured.steps:,} results measured",
        title_justify="left",
    )
    for column in ("", "CPU us/event", "adds, us", "adds, of the loop without it"):
        table.add_column(column, justify="left" if not column else "right")
    before = alone
    for name, us in measured.us.items():
        table.add_row(name, f"{us:.2f}", f"{us - before:.2f}", f"{(us - before) / alone:.0%}")
        before = us
    console.print(table)
    console.print(
        f"The state of the measure: at most {measured.state_bytes:,} bytes\n"
        f"Aim: at most {AIM_US:g} us an event; here {measured.added_us:.2f} us, {measured.added_us / alone:.0%} of the "
        "loop without it",
        highlight=False,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0, or 2 when there is nothing to read."""
    args = _options().parse_args(arguments)
    files = args.files or [*files_in(JUDGED), *default_files()]
    try:
        known = list(read(files))[:: args.share]
    except (OSError, UnreadableTrace) as error:
        print(f"benchmarks.progress: expected recorded sessions, got {error}", file=sys.stderr)
        return 2
    show(measure([[event for _, event in one.session.events] for one in known], rounds=args.rounds), Console())
    return 0


def _options() -> argparse.ArgumentParser:
    parser = command.options("benchmarks.progress", __doc__, "--rounds 10 sessions.jsonl.gz")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="recorded traces (../shared)")
    parser.add_argument("--share", type=int, default=4, metavar="N", help="1 of N sessions (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    return parser


if __name__ == "__main__":
    command.run(main)
