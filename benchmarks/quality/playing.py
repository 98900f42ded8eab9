"""A recorded session once more, live, through the public `Guard`: by an agent that does not listen.

After a refusal it goes on to its next recorded call. No targets are declared, results are whole where the recording has
them, and the clock is the recorded one: it is put in place of Python's for as long as a session is played.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol
from unittest import mock

from benchmarks.quality.sessions import CALL_MS, NumberedStep
from haltline.interventions.agent.calls.guarded_call import Action
from haltline.interventions.agent.frame.session import ToolFailed
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.transport.local_decider import forget_kill
from haltline.schemas.events import Kind, Outcome
from haltline.schemas.policy import Policy
from haltline.streams.importing.steps import Step

_BEGAN_MS = 1_763_800_000_000
_READY_S = 20.0
_RELEASED_S = 5.0
_TOOK_MS = 200
"""The duration of a call for which none is recorded."""


@dataclass
class Played:
    """What came of one session."""

    calls: dict[int, str] = field(default_factory=dict)
    """By the number of each call in the source: its tool."""
    refused: dict[int, str] = field(default_factory=dict)
    """By the number of a call that was not made: the code of its refusal."""
    hints: int = 0


class Clock:
    """The recorded time, in place of Python's."""

    def __init__(self) -> None:
        self.now_ms = _BEGAN_MS
        self._is_set = False

    @classmethod
    def of(cls, steps: Sequence[NumberedStep]) -> "Clock":
        """Return the clock at the beginning of a session."""
        clock = cls()
        if (first := next((step.time_ms for _, step in steps if step.time_ms is not None), None)) is not None:
            clock.at(first, 0)
        return clock

    def at(self, time_ms: int | None, otherwise_ms: int) -> None:
        """Go on to a recorded time, or by so many milliseconds where none is recorded. It never goes back."""
        if time_ms is None:
            self.now_ms += otherwise_ms
        else:
            self.now_ms = max(self.now_ms + 1, time_ms) if self._is_set else time_ms
        self._is_set = True

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Answer `time.time_ns` and the clock of durations until the end of the block."""

        def now_ns() -> int:
            return self.now_ms * 1_000_000

        with mock.patch.object(time, "time_ns", now_ns), mock.patch.object(time, "perf_counter_ns", now_ns):
            yield


class Side(Protocol):
    """What stands between the agent and its tools."""

    hints: int

    def prompt(self, text: str) -> None:
        """Report a prompt of the user."""

    def turn(self, step: Step | None) -> bool:
        """Return whether a turn of the model may be made; report it if it is recorded."""

    def propose(self, step: Step, call_id: str) -> str | None:
        """Return the code by which a call is refused; None: it is made."""

    def end(self, step: Step, call_id: str) -> None:
        """Report the end of a call that was made."""


def drive(
    steps: Sequence[NumberedStep], side: Side, clock: Clock, after: Callable[[], object] = lambda: None
) -> Played:
    """Play the steps of one session. `after` is called after each call."""
    played, is_new_turn = Played(), True
    running: set[str] = set()
    for number, step in steps:
        if step.kind is Kind.SESSION_STARTED:
            clock.at(step.time_ms, CALL_MS)
            side.prompt(step.prompt)
        elif step.kind is Kind.MODEL_TURN:
            clock.at(step.time_ms, 0)
            is_new_turn = not side.turn(step) and is_new_turn
        elif step.kind is Kind.PROPOSED:
            clock.at(step.time_ms, CALL_MS)
            if is_new_turn:
                side.turn(None)
                is_new_turn = False
            played.calls[number] = step.action
            code = side.propose(step, f"call-{number}")
            if code is None:
                running.add(f"call-{number}")
            else:
                played.refused[number] = code
        elif step.kind is Kind.COMPLETED:
            is_new_turn = True
            if (call_id := f"call-{number}") in running:
                running.remove(call_id)
                clock.at(None, round(step.duration_ms or _TOOK_MS))
                side.end(step, call_id)
            after()
    played.hints = side.hints
    return played


class GuardSide:
    """The public guard; each subagent has one of its own below it."""

    def __init__(self, session_id: str, settings: GuardSettings) -> None:
        self.hints = 0
        name = session_id[-200:]  # also the agent's: rules across its sessions do not matter here
        self._main = Guard(settings, session_id=name, agent_id=name, on_advice=self._on_advice, snapshots=False)
        self._guards: dict[str | None, Guard] = {None: self._main}
        self._open: dict[str, Action] = {}

    @property
    def session_id(self) -> str:
        """The session's id, within the length that a guard takes."""
        return self._main.session_id

    def __enter__(self) -> "GuardSide":
        self._main.start()
        until_s = time.monotonic() + _READY_S
        while not self._main.ready and time.monotonic() < until_s:  # over Kafka it has to connect first
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        for guard in reversed(self._guards.values()):
            guard.close()

    def prompt(self, text: str) -> None:
        """Report a prompt of the user. A hold that it ends ends some milliseconds later where workers decide."""
        self._main.prompt(text)
        until_s = time.monotonic() + _RELEASED_S
        while self._main.settings.bootstrap and self._main.stopped and time.monotonic() < until_s:
            time.sleep(0.01)

    def turn(self, step: Step | None) -> bool:
        """Check before a turn, and report it if it is recorded."""
        guard = self._of(None if step is None else step.below)
        try:
            guard.check()
        except Refused:
            return False
        if step is not None:
            guard.model_turn(usage=step.usage, output=step.output if isinstance(step.output, str) else None)
        return True

    def propose(self, step: Step, call_id: str) -> str | None:
        """Enter the call."""
        action = self._of(step.below).action(step.action or "unknown", args=step.args or {})
        try:
            action.__enter__()
        except Refused as refused:
            return refused.code
        self._open[call_id] = action
        return None

    def end(self, step: Step, call_id: str) -> None:
        """Leave the call, with its recorded result or error."""
        action = self._open.pop(call_id)
        if step.outcome is Outcome.ERROR:
            error = ToolFailed(step.error or step.output or "error")
            action.__exit__(ToolFailed, error, None)
            return
        action.result(step.output)
        action.__exit__(None, None, None)

    def _of(self, below: str | None) -> Guard:
        if below not in self._guards:
            above = self._of(below.rpartition("/")[0] or None) if below else self._main
            self._guards[below] = above.below(session_id=f"{self._main.session_id[:150]}/{below}")
        return self._guards[below]

    def _on_advice(self, _: Any) -> None:
        self.hints += 1


def play(session_id: str, steps: Sequence[NumberedStep], policy: Policy | None = None) -> Played:
    """Play one session in mode `local`."""
    return played_by(session_id, steps, GuardSettings(mode="local", policy=policy))


def played_by(
    session_id: str,
    steps: Sequence[NumberedStep],
    settings: GuardSettings,
    after: Callable[[], object] = lambda: None,
) -> Played:
    """Play one session through a guard with these settings."""
    clock = Clock.of(steps)
    with clock.in_place(), GuardSide(session_id, settings) as side:
        played = drive(steps, side, clock, after)
    forget_kill(side.session_id)
    return played
