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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from haltline.interventions.agent.frame.session import Allowed, Denied
from haltline.interventions.agent.integrations.claude_code.messages import ToolResult, ToolUse, Turn
from haltline.interventions.agent.producers.any_json import parsed, written
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.service.client import Reach, ServiceSession
from haltline.interventions.agent.watch.lines import Lines, Output
from haltline.interventions.agent.watch.process_tree import adopt_orphans, end_tree, living_below, waited_for
from haltline.schemas.agent_service import Order
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


class Watch:
    """One run of one agent. Call `run` once."""

    def __init__(
        self,
        reach: Reach,
        begins: Mapping[str, Any],
        *,
        grace_s: float = 5.0,
        out: BinaryIO | None = None,
        on_hint: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`begins`: the session, as fields of `begin`.

        `on_hint` receives the hints for the model, which cannot be delivered to it from here.
        """
        self._reach = reach
        self._begins = dict(begins) | {"reports": True}
        self._root = ServiceSession(reach, self._begins, closed_from=None, on_order=self._ordered)
        self._sessions: dict[str | None, ServiceSession] = {None: self._root}
        self._on_hint = on_hint
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
        self._root.begin()  # a service that it starts is none of the agent's processes
        before = frozenset(living_below(os.getpid()))
        try:
            return self._run(command, before)
        finally:
            for session in self._sessions.values():
                session.end()

    def _run(self, command: Sequence[str], before: frozenset[int]) -> Ended:
        root = self._root
        self._propose(root, PROCESS, PROCESS, {"argv": list(command)}, effect=Effect.EXEC)
        if self._refused is not None:
            return Ended(None, self._refused)
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        except OSError as error:
            root.failed(PROCESS, error)
            raise
        waited_for(process.pid)
        reader = threading.Thread(target=self._read, args=(process.stdout,), name="haltline-watch", daemon=True)
        reader.start()
        while process.poll() is None and not self._stop.wait(_POLL_S):
            if self._refused is not None:
                break
        why, ended = self._refused, process.poll() is not None
        living = [] if ended and why is None else end_tree(os.getpid(), self._grace_s, spared=before)
        code = process.wait(_DRAIN_S) if not living else process.poll()
        reader.join(_DRAIN_S if ended or not living else 0)
        if not living:
            children = [name for name in map(self._end, list(self._sessions)) if name is not None]
            failed = None if code == 0 else f"exit code {code}"
            root.after(PROCESS, {"exit_code": code}, error=failed, children=children)
        return Ended(code, self._refused, tuple(living))

    def _ordered(self, order: Order) -> None:
        if order.order == "stop" and self._refused is None:
            self._refused = Refused(order.code or "", order.message or "")

    def _end(self, whose: str | None) -> str | None:
        session = self._sessions[whose]
        if whose is None:
            session.abandon(but=PROCESS)
            return None
        session.end()
        return session.session_id

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

    def _propose(self, session: ServiceSession, call_id: str, name: str, args: Any, **options: Any) -> None:
        try:
            verdict = session.before(call_id, name, args, **options)
        except Refused as refused:
            self._refused = self._refused or refused
            return
        if isinstance(verdict, Denied):
            self._refused = self._refused or verdict.refused
        if hints := session.hints_of(call_id) if isinstance(verdict, Allowed) else verdict.refused.hints:
            self._on_hint(hints)

    def _apply(self, session: ServiceSession, output: Output) -> None:
        if isinstance(output, ToolUse):
            self._propose(session, output.call_id, output.name, output.args)
        elif isinstance(output, ToolResult):
            failed = _text(output.content) if output.is_error else None
            session.after(output.call_id, output.content, error=failed)
        elif isinstance(output, Turn):
            session.turn(output.usage, output.text)

    def _session(self, whose: str | None) -> ServiceSession:
        if whose not in self._sessions:
            name = self._root.session_id
            below = {"session_id": f"{name}/{whose}"[:256], "parent_session_id": name}
            self._sessions[whose] = ServiceSession(self._reach, self._begins | below, closed_from=None)
        return self._sessions[whose]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else written(content).decode()
