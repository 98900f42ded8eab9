"""The commands of operators: created, and checked before anything is sent."""

import time
import uuid
from typing import Any, Final

from pydantic import ValidationError

from haltline.interventions.control.probation import CLOSED
from haltline.interventions.control.scope_commands import STATE_OF
from haltline.schemas.control import Command, CommandKind, ControlRecord, ControlState
from haltline.schemas.decisions import Decision, ScopeKind
from haltline.schemas.problems import problem_of
from haltline.schemas.record import rfc3339

LABELS: Final = ("confirmed", "false_alarm")
"""An operator's labels of a decision."""

MISSED: Final = "missed"
"""An operator's label of a session: a rule should have found something."""

FLEET: Final = "*"
"""The id of the one fleet."""


_NO_RULES: Final = frozenset({"", "approval", "killed"})
"""The detector names of decisions that no rule has made."""


class NotAllowed(ValueError):
    """A command is not allowed: what was expected and what was given."""


def make_command(
    kind: CommandKind,
    scope: ScopeKind,
    scope_id: str,
    *,
    by: str,
    reason: str,
    **fields: Any,
) -> Command:
    """Return a command of an operator, with the current time. Raises NotAllowed, for example without a reason."""
    for name, text in (("by", by), ("reason", reason), ("id", scope_id)):
        if not text.strip():
            raise NotAllowed(f"{kind} of {scope} {scope_id!r}: {name}: expected a text that says it, got {text!r}")
    if (scope is ScopeKind.FLEET) != (scope_id == FLEET):
        raise NotAllowed(f"{kind}: expected the id {FLEET} with the scope fleet and only there, got {scope} {scope_id}")
    try:
        return Command(
            command_id=uuid.uuid4().hex,
            kind=kind,
            scope=scope,
            id=scope_id,
            by=by.strip(),
            reason=reason.strip(),
            time=now_ms(),
            **{name: value for name, value in fields.items() if value is not False},
        )
    except ValidationError as error:
        raise NotAllowed(f"{kind}: {problem_of(error)}") from error


def require_possible(command: Command, stands: ControlRecord | None) -> None:
    """Raise NotAllowed for a command that conflicts with the control in force (None: there is none)."""
    scope = f"{command.scope} {command.id}"
    if command.kind is not CommandKind.RESET:
        if stands is not None and stands.state is ControlState.KILLED:
            raise NotAllowed(f"{command.kind} of {scope}: expected one that is not killed; a reset ends a kill")
    elif command.session is not None:
        if stands is None:
            raise NotAllowed(f"reset of {command.session}: expected {scope} to be stopped, got nothing that stands")
    elif stands is not None and stands.locked_until is not None and command.time < stands.locked_until:
        until, now = rfc3339(stands.locked_until), rfc3339(command.time)
        raise NotAllowed(
            f"reset of {command.id}: it was killed on probation; expected a time after {until}, got {now}. "
            "Two different operators can do it sooner, each with --force"
        )


def is_done(command: Command, record: ControlRecord | None, *, until_stopped: bool = False) -> bool:
    """Return whether the control record (or None) is the command's result; a closed session stays so."""
    if command.kind is CommandKind.RESET:
        released = record is None or record.state is ControlState.PROBATION or record.code == CLOSED
        return record is None or command.session in (record.spared or ()) if command.session else released
    state = None if record is None or record.state is ControlState.PROBATION else record.state
    is_stopped = not until_stopped or (record is not None and record.stopped_at is not None)
    return state == STATE_OF.get(command.kind) and is_stopped


def require_label(label: str) -> None:
    """Raise NotAllowed for an unknown label."""
    if label not in LABELS:
        raise NotAllowed(f"label: expected one of {', '.join(LABELS)}, got {label!r}")


def require_rule(decision: Decision) -> None:
    """Raise NotAllowed for a decision that no rule has made, because a label would apply to no rule."""
    if decision.detector in _NO_RULES:
        raise NotAllowed(
            f"decision {decision.decision_id}: expected the decision of a rule, as a label is about its rule; got "
            f"{decision.code!r} ({decision.reason[:80]}). If a rule should have found it: "
            f"haltline missed {decision.session_id} --rule RULE"
        )


def now_ms() -> int:
    """Return the wall clock's time in epoch milliseconds."""
    return time.time_ns() // 1_000_000
