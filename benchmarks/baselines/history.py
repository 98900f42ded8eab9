"""A recorded session as the peers' loop detectors see it: actions, observations and messages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

import orjson

from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.streams.replay.backtest import Recorded

_SHELLS = frozenset({"bash", "shell", "sh", "execute_bash", "run_command", "terminal", "local_shell"})
_CELLS = frozenset({"run_code", "python", "ipython", "execute_ipython_cell", "execute_python", "code_interpreter"})
_EXIT_CODE = re.compile(r"\brc=(-?\d+)")


@dataclass(frozen=True, slots=True)
class Action:
    """A tool call."""

    name: str
    args: str = ""
    """The arguments, or a digest of all of them."""
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of a tool call."""

    content: str = ""
    error: bool = False
    """The call itself was wrong: an ErrorObservation or AgentErrorEvent. A command that fails is none."""
    command: str | None = None
    """The identity of a command line, apart from its exit code."""
    exit_code: int = 0
    cell: bool = False
    """True for a notebook cell."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message of an agent."""

    text: str
    speaker: str = "agent"


@dataclass(frozen=True, slots=True)
class Condensation:
    """A condensation of a context that had become too long."""


Entry: TypeAlias = Action | Observation | Message | Condensation


class Verdict(Enum):
    """A detector's verdict on an entry."""

    HINT = "hint"
    """The model receives a hint and continues."""
    STOP = "stop"


class Detector(Protocol):
    """One of the peers' detectors, for one session."""

    def add(self, entry: Entry) -> tuple[Verdict, str] | None:
        """Add the session's next entry. Return the verdict and its rule, or None."""


def entries(session: Recorded) -> Iterator[tuple[int, Entry]]:
    """Yield each entry with its event's number in the source.

    Thoughts are not recorded, so calls that differ in thoughts only are equal here. With thoughts, detectors that
    compare them would find less.
    """
    proposed: dict[str, ActionEvent] = {}
    for seq, event in session.events:
        if event.kind is Kind.MODEL_TURN and event.output_head:
            yield seq, Message(event.output_head, event.agent_id)
        elif event.kind is Kind.PROPOSED:
            proposed[event.call_id or event.event_id] = event
            yield seq, _begun(event)
        elif event.kind is Kind.COMPLETED:
            began = proposed.pop(event.call_id or "", None)
            if began is None:
                began = event
                yield seq, _begun(event)
            if not _speaks(began):
                yield seq, _ended(began, event)


def _speaks(event: ActionEvent) -> bool:
    return event.action.lower().rpartition(":")[2] == "say"


def _begun(event: ActionEvent) -> Action | Message:
    if _speaks(event):
        return Message(str((event.args or {}).get("text", "")), f"{event.agent_id} {event.action}")
    digest = event.args_digest or orjson.dumps(event.args, option=orjson.OPT_SORT_KEYS).decode()
    return Action(event.action, digest)


def _ended(began: ActionEvent, event: ActionEvent) -> Observation:
    name = began.action.lower()
    failed = event.outcome in {Outcome.ERROR, Outcome.TIMEOUT, Outcome.REFUSED}
    text = event.output_head or event.error or ""
    content = f"{event.output_digest or ''} {event.output_bytes} {event.error or ''}"
    if name in _SHELLS:
        match = _EXIT_CODE.search(event.error or "")
        code = (int(match[1]) if match else 1) if failed else 0
        return Observation(content, command=_begun_digest(began), exit_code=code)
    if name in _CELLS:
        return Observation(text if failed else content, cell=True)
    return Observation(content, error=failed)


def _begun_digest(began: ActionEvent) -> str:
    begun = _begun(began)
    return begun.args if isinstance(begun, Action) else begun.text
