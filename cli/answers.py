"""Helpers of operators' commands: resolve an id, send the command, print its result."""

import time

import typer

from haltline.cli.cluster import Cluster
from haltline.cli.common import Exit, ago, print_json, say, say_error
from haltline.interventions.control.probation import CLOSED
from haltline.schemas.control import CommandKind, ControlRecord, ControlState
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.record import rfc3339
from haltline.streams.operator.approval_client import ApprovalClient
from haltline.streams.operator.client import CommandResult, Operator
from haltline.streams.operator.command_factory import FLEET
from haltline.streams.operator.known_sessions import HINT


def operator_of(at: Cluster) -> ApprovalClient:
    """A client that sends operators' commands, and reads approval requests and incidents."""
    return ApprovalClient(
        at.bootstrap, topics=at.topics, group=at.workers, answer_within_s=at.timeout, client=at.client_config
    )


def say_left_out(operator: Operator) -> None:
    """Report on standard error what the last answer left out, so that no count is taken for all of them."""
    for table in ("incidents", "approvals"):
        if count := operator.left_out.get(table):
            say_error(f"left out: {count} {table}, those that changed longest ago")


def id_within(scope: ScopeKind, scope_id: str) -> str:
    """The given id, or for the scope fleet its fixed id."""
    return scope_id or (FLEET if scope is ScopeKind.FLEET else "")


NOTHING_TO_END = "nothing is in force against it, and it has no events"


def whole_id(operator: Operator, scope: ScopeKind, scope_id: str, *, unknown: bool = False, hint: str = HINT) -> str:
    """The whole id for an id or its unique prefix. Raises NotFound and Ambiguous."""
    given = id_within(scope, scope_id)
    return given if unknown else operator.find(scope, given, hint=hint)


def named(answer: CommandResult) -> str:
    """The command's scope and id, for messages."""
    return "the fleet" if answer.command.scope is ScopeKind.FLEET else f"{answer.command.scope} {answer.command.id}"


def story(record: ControlRecord) -> str:
    """A control record in one sentence: what was done, why, by whom and when."""
    since = f"{rfc3339(record.stands_since)}, {ago(record.stands_since, time.time_ns() // 1_000_000)} ago"
    stopped = f"; {acknowledged(record)}" if record.scope is ScopeKind.SESSION else ""
    return f"{record.reason} ({record.code}, by {record.by} at {since}{stopped})"


def acknowledged(record: ControlRecord) -> str:
    """A sentence on whether the agent's side has acknowledged the stop, and how fast."""
    if record.scope is not ScopeKind.SESSION:
        return "-"  # each session of the scope acknowledges separately
    if record.state is ControlState.PROBATION:
        return f"released, for {record.actions_left} actions on probation"
    if record.state is not ControlState.KILLED:
        return "-"
    if record.stopped_at is None and record.unheard:
        return "no events of it were found: it is stopped if it starts"
    if record.stopped_at is None:
        times = f", though sent {record.issued} times" if record.issued else ""
        return f"NEVER acknowledged{times}" if record.escalated_at else f"not acknowledged by an agent yet{times}"
    took = f" {record.time_to_stop_ms} ms after the decision" if record.time_to_stop_ms is not None else ""
    return f"the agent stopped{took}"


def outcome_of(answer: CommandResult, *, until_stopped: bool = False) -> str:
    """The result of a command on a scope in a sentence; without an answer, what was expected."""
    who, command, after = named(answer), answer.command, answer.after
    if answer.second_wanted:
        return f"{who}: {command.kind} is recorded; a second operator has to send it too"
    if command.kind is CommandKind.RESET:
        return _released(answer)
    if not answer.answered:
        return f"{who}: expected an answer {'that it stopped' if until_stopped else 'from a worker'}"
    if after is None or command.kind is CommandKind.LIFT:
        return f"{who} is free"
    before = answer.before
    again = before is not None and before.state is after.state is ControlState.KILLED
    return f"{who} {'was killed already' if again else f'is {after.state}'}: {story(after)}"


def _released(answer: CommandResult) -> str:
    who, command, before, after = named(answer), answer.command, answer.before, answer.after
    if after is not None and after.code == CLOSED:
        return f"{who} stays closed: the policy asks for a new session"
    if not answer.answered:
        other = "a second operator's reset --force, or a worker" if command.force else "an answer from a worker"
        return f"{who}: expected {other}"
    if command.session is not None:
        return f"{who}: session {command.session} is released from it"
    if before is None or before.state is ControlState.PROBATION:
        return f"{who} was not killed; its counts are reset"
    held = f", on probation for {after.actions_left} actions" if after is not None and after.actions_left else ""
    return f"{who} is released{held}. It was killed: {story(before)}"


def conclude(answer: CommandResult, text: str, *, as_json: bool) -> None:
    """Print the result; exit 1 if no worker has answered."""
    if as_json:
        print_json(
            {
                "command": answer.command,
                "answered": answer.answered,
                "before": answer.before,
                "after": answer.after,
                "waited_s": round(answer.waited_s, 3),
            }
        )
    elif answer.answered:
        say(text)
    if not answer.answered:
        say_error(
            f"haltline: {text} within {answer.waited_s:g} s, got none. The command "
            f"({answer.command.command_id}) is kept and will be carried out when a worker runs"
        )
        raise typer.Exit(Exit.NO)
