"""A sample of sessions by every way to a decision: in process, through a worker on an embedded broker, through hooks.

All play the same calls by the same clock, without turns of the model, which hooks read from a transcript. In mode
`blocking` and in hooks every call is decided on before it is made, so that the same ones have to be refused as in mode
`local`. In mode `async` a decision may come after the call that it is on: the first refusal, and the hold, may be later
by the calls that are under way, of which there is one here.
"""

import asyncio
import contextlib
import io
import os
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import orjson
from rich.console import Console
from rich.progress import track

from benchmarks.quality.measuring import OURS, Measured
from benchmarks.quality.playing import Clock, Played, drive, play, played_by
from benchmarks.quality.sessions import Known
from benchmarks.reporting.table import Table
from haltline.cli.agent import hook
from haltline.cli.agent.hook_request import place
from haltline.cli.agent.service import server_of
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.events import Kind, Outcome
from haltline.schemas.topics import Topics
from haltline.streams.importing.steps import Step
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.subprocesses import Children
from haltline.streams.local.system import start_worker, wait_until_ready

WAYS = ("blocking", "async", "hook")
_UNDER_WAY = 1
"""Calls that are under way in mode `async` when a decision arrives: the agent makes one at a time."""
_ARRIVES_S = 0.1
"""The pause after each call in mode `async`, in which its decision arrives."""
_MOST_CALLS = 40
_UNREAD = 2
"""The exit code for input that cannot be read; a session that is stopped ends with 1."""


@dataclass(frozen=True)
class Compared:
    """One session by one way, beside mode `local`."""

    session_id: str
    way: str
    calls: int
    local: Sequence[int]
    """The numbers of the calls that are refused in mode `local`."""
    refused: Sequence[int]

    @property
    def agrees(self) -> bool:
        """Whether the way refuses what it should."""
        if self.way != "async":
            return self.refused == self.local
        if not self.local:
            return not self.refused
        if not self.refused:  # its only refusal was of a call that nothing followed
            return self.local[0] >= self.calls - _UNDER_WAY
        first = self.refused[0] - self.local[0]
        later = _held_from(self.refused, self.calls) - _held_from(self.local, self.calls)
        return 0 <= first <= _UNDER_WAY and later <= first + _UNDER_WAY

    def as_json(self) -> dict[str, Any]:
        """Return all fields."""
        return asdict(self) | {"agrees": self.agrees}


def _held_from(refused: Sequence[int], calls: int) -> int:
    """Return the number of the call from which all are refused; that after the last if it is not."""
    number = calls
    while number - 1 in refused:
        number -= 1
    return number


def sample(sessions: Sequence[Known], measured: Measured, count: int) -> list[Known]:
    """Return sessions of each set in turn, runaways and others, those with a refused call first; the shortest."""
    refused = {(one.known.group, one.known.session_id) for one in measured.outcomes[OURS] if one.refused}
    groups: dict[str, list[Known]] = {}
    for known in sessions:
        if not any(step.below for _, step in known.steps()):
            groups.setdefault(known.group, []).append(known)
    for those in groups.values():
        those.sort(key=lambda one: ((one.group, one.session_id) not in refused, one.session.length))
    rounds = (those[number] for number in range(count) for those in groups.values() if number < len(those))
    return [known for known, _ in zip(rounds, range(count), strict=False)]


def compare(sessions: Sequence[Known], bootstrap: str, console: Console) -> list[Compared]:
    """Play the beginning of each session by every way, under the default policy; a worker runs at this address."""
    found: list[Compared] = []
    with _hooks() as folder:
        connected = GuardSettings(
            mode="blocking", bootstrap=bootstrap, approval_wait_s=0, budget_s=20, start_budget_s=20
        )
        for number, known in enumerate(track(sessions, "Ways", console=console, disable=not console.is_terminal)):
            steps = [one for one in known.steps() if one[0] < _MOST_CALLS and one[1].kind is not Kind.MODEL_TURN]
            name = f"{secrets.token_hex(4)}-{number}"
            local = play(f"{name}-local", steps)
            ways = {
                "blocking": played_by(f"{name}-blocking", steps, connected),
                "async": played_by(f"{name}-async", steps, connected.changed(mode="async"), _wait),
                "hook": _through_hook(f"{name}-hook", steps, folder),
            }
            order = {call: at for at, call in enumerate(local.calls)}
            at = [order[call] for call in local.refused]
            found += [
                Compared(known.session_id, way, len(order), at, [order[call] for call in played.refused])
                for way, played in ways.items()
            ]
    return found


def _wait() -> None:
    time.sleep(_ARRIVES_S)


def table(compared: Sequence[Compared]) -> Table:
    """Return how many sessions agree, by way."""
    rows = []
    for way in WAYS:
        those = [one for one in compared if one.way == way]
        if those:
            refused, alike = sum(len(one.refused) for one in those), sum(one.agrees for one in those)
            rows.append([way, str(len(those)), str(refused), str(alike)])
    return Table("The same sessions by other ways", ["way", "sessions", "calls refused", "as they should be"], rows)


@contextmanager
def worker() -> Iterator[str]:
    """Start a broker and a worker; yield the broker's address."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="haltline-quality-")))
        broker = stack.enter_context(EmbeddedBroker())
        broker.ensure_topics(Topics())
        children = stack.enter_context(Children(folder))
        wait_until_ready(children, start_worker(children, broker.bootstrap, embedded=True))
        yield broker.bootstrap


@contextmanager
def _hooks() -> Iterator[Path]:
    """Serve hooks in this process, whose clock is the recorded one; yield the folder of the socket."""
    with tempfile.TemporaryDirectory(prefix="hl") as name:
        variables = {"HALTLINE_RUN_DIR": name, "HALTLINE_MODE": "local", "HALTLINE_HOOK_APPROVAL": "deny", "HOME": name}
        variables |= {"CLAUDE_CODE_ENTRYPOINT": "cli", "XDG_STATE_HOME": name}  # a person writes the prompts
        with mock.patch.dict(os.environ, variables):
            serving = server_of(Path(place([], os.environ)), idle_s=None)
            loop = asyncio.new_event_loop()
            task = loop.create_task(serving.serve())
            thread = threading.Thread(target=lambda: _until_done(loop, task), daemon=True)
            thread.start()
            try:
                yield Path(name)
            finally:
                loop.call_soon_threadsafe(task.cancel)
                thread.join()
                loop.close()


def _until_done(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[None]") -> None:
    with contextlib.suppress(asyncio.CancelledError):
        loop.run_until_complete(task)


def _through_hook(session_id: str, steps: Sequence[tuple[int, Step]], folder: Path) -> Played:
    clock = Clock.of(steps)
    side = HookSide(session_id, folder)
    with clock.in_place():
        played = drive(steps, side, clock)
        side.send("SessionEnd")
    return played


class HookSide:
    """Claude Code's hooks, through the command `haltline hook`."""

    def __init__(self, session_id: str, folder: Path) -> None:
        self.hints = 0
        self._session_id, self._folder = session_id, folder
        self.send("SessionStart", source="startup")

    def send(self, event: str, **fields: Any) -> dict[str, Any]:
        """Run one hook, and return its answer."""
        given = {"session_id": self._session_id, "hook_event_name": event, "cwd": str(self._folder), **fields}
        stdin, out = io.TextIOWrapper(io.BytesIO(orjson.dumps(given))), io.StringIO()
        said = io.StringIO()
        with mock.patch.object(sys, "stdin", stdin), contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
            code = hook.main([])
        if code == _UNREAD:
            raise RuntimeError(f"haltline hook: {event}: expected an answer, got exit code {code}")
        return dict(orjson.loads(out.getvalue() or "{}"))

    def prompt(self, text: str) -> None:
        """Report a prompt of the user."""
        self.send("UserPromptSubmit", prompt=text)

    def turn(self, step: Step | None) -> bool:  # noqa: ARG002 - hooks read turns from a transcript, and there is none
        """Hooks do not hold back turns."""
        return True

    def propose(self, step: Step, call_id: str) -> str | None:
        """Ask before the call."""
        call = {"tool_name": step.action or "unknown", "tool_input": step.args or {}, "tool_use_id": call_id}
        answer = self.send("PreToolUse", **call)
        own = answer.get("hookSpecificOutput", {})
        self.hints += "additionalContext" in own
        is_denied = own.get("permissionDecision") == "deny" or answer.get("continue") is False
        return str(own.get("permissionDecisionReason", "denied"))[:80] if is_denied else None

    def end(self, step: Step, call_id: str) -> None:
        """Report the end of the call."""
        call = {"tool_name": step.action or "unknown", "tool_input": step.args or {}, "tool_use_id": call_id}
        if step.outcome is Outcome.ERROR:
            self.send("PostToolUseFailure", **call, error=str(step.error or step.output or "error"))
        else:
            self.send("PostToolUse", **call, tool_response=step.output)
