"""An agent as a child process: its lines are published, and a kill ends it and its descendants.

A line reports a call that is made already, so nothing can be refused. A decision that would refuse a call (PAUSE or
above) can only be enforced by ending the agent.
"""

import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from haltline.interventions.agent.enforcement.refusal_cause import Advice
from haltline.interventions.agent.frame.session import FrameworkSession
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.claude_code.messages import ToolResult, ToolUse, Turn
from haltline.interventions.agent.producers.any_json import parsed, written
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.watch.lines import Lines, Output
from haltline.interventions.agent.watch.process_tree import adopt_orphans, end_tree, living_below, waited_for
from haltline.schemas.control import Stage
from haltline.schemas.events import Effect

log: Final = logging.getLogger("haltline.agent")

PROCESS: Final = "agent_process"
"""The action of the process itself: while it runs, a kill is not acknowledged as stopped."""
_POLL_S = 0.05
_MAX_LINE_BYTES = 16 * 1024 * 1024
_DRAIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of the agent."""

    code: int | None
    """The child's exit code, negative for a signal; None: it was never started."""
    refused: Refused | None = None
    """Why it was stopped."""
    living: tuple[int, ...] = ()
    """Processes of the tree that still run."""


class WatchedGuard(Guard):
    """A guard that can report the sessions stopped with its own."""

    def tell_children(self, children: Sequence[str]) -> None:
        """Report sessions that were stopped with this one. No-op unless the session was killed."""
        killed = self._gate.enforcer.killed
        if killed is not None and children:
            self._gate.publisher.acknowledge(
                Stage.CHILDREN, killed.decision_id, killed.decided_at_ms, children=children
            )


class Watch:
    """One run of one agent. Call `run` once."""

    def __init__(
        self,
        settings: GuardSettings,
        *,
        grace_s: float = 5.0,
        out: BinaryIO | None = None,
        on_advice: Callable[[Advice], object] | None = None,
    ) -> None:
        """`on_advice` receives the hints for the model, which cannot be delivered to it from here."""
        # Calls in lines cannot be refused any more, so a missing verdict is no reason to end the agent.
        self._guard = WatchedGuard(settings, mode="async", fail_closed_from=None, ask_from=None, on_advice=on_advice)
        self._sessions: dict[str | None, FrameworkSession] = {None: FrameworkSession(self._guard)}
        self._on_advice = on_advice
        self._grace_s = grace_s
        self._out = out or sys.stdout.buffer
        self._lines = Lines()
        self._refused: Refused | None = None
        self._stop = threading.Event()

    def stop(self) -> None:
        """End the agent, when this process is to end."""
        self._stop.set()

    def run(self, command: Sequence[str]) -> Ended:
        """Run the command to its end, or end it. Raises OSError if it cannot be started."""
        adopt_orphans()
        before = frozenset(living_below(os.getpid()))
        try:
            with self._guard:
                return self._run(command, before)
        finally:
            for session in self._sessions.values():
                session.end()

    def _run(self, command: Sequence[str], before: frozenset[int]) -> Ended:
        root = self._sessions[None]
        answer = root.propose(PROCESS, PROCESS, {"argv": list(command)}, effect=Effect.EXEC)
        if answer.refused is not None:
            return Ended(None, answer.refused)
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        except OSError as error:
            root.complete(PROCESS, error=error)
            raise
        waited_for(process.pid)
        reader = threading.Thread(target=self._read, args=(process.stdout,), name="haltline-watch", daemon=True)
        reader.start()
        while process.poll() is None and not self._stop.wait(_POLL_S):
            if self._why() is not None:
                break
        why, ended = self._why(), process.poll() is not None
        living = [] if ended and why is None else end_tree(os.getpid(), self._grace_s, spared=before)
        code = process.wait(_DRAIN_S) if not living else process.poll()
        reader.join(_DRAIN_S if ended or not living else 0)
        if not living:
            children = [name for name in map(self._end, list(self._sessions)) if name is not None]
            self._guard.tell_children(children)
            root.complete(PROCESS, {"exit_code": code}, error=None if code == 0 else f"exit code {code}")
        return Ended(code, self._why(), tuple(living))

    def _why(self) -> Refused | None:
        """Return why the agent must not continue, if so."""
        if self._guard.killed:
            try:
                self._guard.check()
            except Refused as refused:
                return refused
        return self._refused

    def _end(self, whose: str | None) -> str | None:
        session = self._sessions[whose]
        if whose is None:
            session.abandon(but=PROCESS)
            return None
        session.end()
        return session.guard.session_id

    def _read(self, lines: BinaryIO) -> None:
        while line := lines.readline(_MAX_LINE_BYTES):
            with contextlib.suppress(OSError, ValueError):  # our output is closed; the agent is still watched
                self._out.write(line)
                self._out.flush()
            try:
                record = parsed(line)
            except ValueError:
                continue
            try:
                if isinstance(record, dict):
                    for whose, one in self._lines.read(record):
                        self._apply(self._session(whose), one)
            except Exception:  # an agent whose output is not read would block
                log.exception("haltline: a line of the agent could not be read")

    def _apply(self, session: FrameworkSession, output: Output) -> None:
        if isinstance(output, ToolUse):
            answer = session.propose(output.call_id, output.name, output.args)
            if answer.refused is not None and self._refused is None:
                self._refused = answer.refused
        elif isinstance(output, ToolResult):
            session.complete(output.call_id, output.content, error=_text(output.content) if output.is_error else None)
        elif isinstance(output, Turn):
            session.turn(*output)

    def _session(self, whose: str | None) -> FrameworkSession:
        if whose not in self._sessions:
            own = self._guard.settings
            below = own.changed(
                session_id=f"{own.session_id}/{whose}"[:256],
                parent_session_id=own.session_id,
                root_session_id=own.root_session_id or own.parent_session_id or own.session_id,
                ancestors=(*own.ancestors, *filter(None, (own.parent_session_id,))),
            )
            self._sessions[whose] = FrameworkSession(Guard(below, on_advice=self._on_advice))
        return self._sessions[whose]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else written(content).decode()
