"""`haltline kill`, `reset`, `batch`, `label`: what an operator asks of the worker."""

import time
from datetime import timedelta
from typing import Annotated

import typer

from haltline.interventions.probation import CLOSED
from haltline.schemas.control import ControlRecord, ControlState
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.record import rfc3339
from haltline.schemas.topics import Topics
from haltline.streams.cli.common import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_GROUP,
    DEFAULT_PREFIX,
    NO_CLIENT_CONFIG,
    AsJson,
    Bootstrap,
    By,
    Client,
    ClientConfig,
    Exit,
    Group,
    Prefix,
    Reason,
    Timeout,
    ago,
    duration,
    group_of,
    print_json,
    say,
    say_error,
)
from haltline.streams.operator import FLEET, LABELS, Answer, Operator

Scope = Annotated[ScopeKind, typer.Option(help="What ID is the id of.", case_sensitive=False)]
ScopeId = Annotated[str, typer.Argument(help="The session's id, or the id within --scope.", metavar="ID")]
Session = Annotated[str, typer.Argument(help="The session's id.", metavar="SESSION")]


def kill(
    *,
    by: By,
    reason: Reason,
    scope_id: ScopeId = "",
    scope: Scope = ScopeKind.SESSION,
    until_stopped: Annotated[
        bool, typer.Option("--until-stopped", help="Wait until the agent's side says that it stopped.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    prefix: Prefix = DEFAULT_PREFIX,
    client_config: ClientConfig = NO_CLIENT_CONFIG,
    timeout: Timeout = 10.0,
    as_json: AsJson = False,
) -> None:
    """Stop a session, or every session of an agent, tool, target, mission or the fleet, now.

    Doing it twice does no harm. Exit 1 when no worker answers in time: the command is kept for when one runs.

    Example: haltline kill session-42 --by ada --reason 'deletes the wrong schema'

    Example: haltline kill --scope tool delete_asset --by ada --reason 'catalogue is being restored'
    """
    answer = _operator(bootstrap, prefix, client_config, timeout).kill(
        scope, _id(scope, scope_id), by=by, reason=reason, until_stopped=until_stopped
    )
    if answer.answered and answer.after is not None:
        before = answer.before
        again = "was killed already" if before is not None and before.state is ControlState.KILLED else "is killed"
        _conclude(answer, f"{_named(answer)} {again}: {_story(answer.after)}", as_json=as_json)
    else:
        what = "that it stopped" if until_stopped else "from a worker"
        _conclude(answer, f"{_named(answer)}: wanted an answer {what}", as_json=as_json)


def reset(
    *,
    by: By,
    reason: Reason,
    scope_id: ScopeId = "",
    scope: Scope = ScopeKind.SESSION,
    probation: Annotated[
        int | None, typer.Option(help="For how many actions; left out: as the policy says.", min=0, max=10_000)
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Within the lockout; takes two different operators, one after the other.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    prefix: Prefix = DEFAULT_PREFIX,
    client_config: ClientConfig = NO_CLIENT_CONFIG,
    timeout: Timeout = 10.0,
    as_json: AsJson = False,
) -> None:
    """Release what was killed; a session begins anew, on probation. Refused without a reason.

    On probation, for some actions, limits are lower and a refusal is a kill; after such a kill a reset is refused
    until the lockout is over. Doing it twice does no harm. Exit 1 when no worker answers in time: the command is kept.

    Example: haltline reset session-42 --by ada --reason 'task corrected: report instead of deleting'
    """
    answer = _operator(bootstrap, prefix, client_config, timeout).reset(
        scope, _id(scope, scope_id), by=by, reason=reason, probation_actions=probation, force=force
    )
    if not answer.answered and force:
        _conclude(answer, f"{_named(answer)}: wanted a second operator's reset --force, or a worker", as_json=as_json)
    elif answer.after is not None and answer.after.code == CLOSED:
        _conclude(answer, f"{_named(answer)} stays closed: the policy asks for a new session", as_json=as_json)
    elif not answer.answered:
        _conclude(answer, f"{_named(answer)}: wanted an answer from a worker", as_json=as_json)
    elif answer.before is None or answer.before.state is ControlState.PROBATION:
        _conclude(answer, f"{_named(answer)} was not killed; what was counted is forgotten", as_json=as_json)
    else:
        on = answer.after.actions_left if answer.after is not None else None
        held = f", on probation for {on} actions" if on else ""
        _conclude(
            answer, f"{_named(answer)} is released{held}. It was killed: {_story(answer.before)}", as_json=as_json
        )


def batch(
    *,
    session: Session,
    by: By,
    reason: Reason,
    max_deletes: Annotated[int, typer.Option(help="How many destructive acts are expected.", min=1, max=1_000_000)],
    actions: Annotated[str, typer.Option(help="Tools it covers, a glob.", metavar="GLOB")] = "*",
    targets: Annotated[
        list[str] | None,
        typer.Option(help="Targets it covers, a glob such as 'asset_id=stg_*'; may be repeated.", metavar="GLOB"),
    ] = None,
    lasts: Annotated[
        timedelta,
        typer.Option("--for", help="How long it holds, at most 8h.", parser=duration, metavar="TIME"),
    ] = timedelta(hours=1),
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    prefix: Prefix = DEFAULT_PREFIX,
    client_config: ClientConfig = NO_CLIENT_CONFIG,
    group: Group = DEFAULT_GROUP,
    timeout: Timeout = 10.0,
    as_json: AsJson = False,
) -> None:
    """Declare a bulk clean-up beforehand, so that its volume does not stop the session.

    The same target twice still counts as a loop. Exit 1 when no worker answers in time.

    Example: haltline batch night-7 --max-deletes 100 --targets 'asset_id=stg_*' --by ada --reason 'staging clean-up'
    """
    answer = _operator(bootstrap, prefix, client_config, timeout, group).declare_batch(
        session,
        max_deletes=max_deletes,
        actions=actions,
        targets=tuple(targets or ()),
        lasts=lasts,
        by=by,
        reason=reason,
    )
    declared = answer.command.batch
    if answer.answered and declared is not None:
        covered = f"{declared.actions} on {', '.join(declared.targets) or 'any target'}"
        text = f"{_named(answer)} may do {max_deletes} destructive acts until {rfc3339(declared.expires)}: {covered}"
        _conclude(answer, text, as_json=as_json)
    else:
        _conclude(answer, f"batch of {_named(answer)}: wanted an answer from a worker", as_json=as_json)


def label(
    *,
    decision: Annotated[str, typer.Argument(help="The decision's id.")],
    verdict: Annotated[str, typer.Argument(help=" or ".join(LABELS), metavar="LABEL")],
    by: By,
    reason: Reason,
    session: Annotated[str | None, typer.Option(help="Its session; left out: looked up.", metavar="SESSION")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    prefix: Prefix = DEFAULT_PREFIX,
    client_config: ClientConfig = NO_CLIENT_CONFIG,
    group: Group = DEFAULT_GROUP,
    timeout: Timeout = 10.0,
    as_json: AsJson = False,
) -> None:
    """Say whether a decision was right, for the audit and the tuning of thresholds.

    Exit 1 when there is no such decision.

    Example: haltline label 9f3c0a77 false_alarm --by ada --reason 'was the nightly clean-up'
    """
    answer = _operator(bootstrap, prefix, client_config, timeout, group).label(
        decision, verdict, session_id=session, by=by, reason=reason
    )
    said = "is noted" if answer.answered else "wanted an answer from a worker"
    _conclude(answer, f"decision {decision}, {verdict}: {said}", as_json=as_json)


def _operator(bootstrap: str, prefix: str, client: Client, timeout_s: float, group: str = DEFAULT_GROUP) -> Operator:
    return Operator(
        bootstrap, topics=Topics(prefix), group=group or group_of(prefix), answer_within_s=timeout_s, client=client
    )


def _id(scope: ScopeKind, scope_id: str) -> str:
    return scope_id or (FLEET if scope is ScopeKind.FLEET else "")


def _named(answer: Answer) -> str:
    return "the fleet" if answer.command.scope is ScopeKind.FLEET else f"{answer.command.scope} {answer.command.id}"


def _story(record: ControlRecord) -> str:
    since = f"{rfc3339(record.since)}, {ago(record.since, time.time_ns() // 1_000_000)} ago"
    stopped = f"; {acknowledged(record)}" if record.scope is ScopeKind.SESSION else ""
    return f"{record.reason} ({record.code}, by {record.by} at {since}{stopped})"


def acknowledged(record: ControlRecord) -> str:
    """Whether the agent's side has said that it stopped, and how fast that was."""
    if record.scope is not ScopeKind.SESSION:
        return "-"  # each session of the scope acknowledges for itself
    if record.state is ControlState.PROBATION:
        return f"released, for {record.actions_left} actions on probation"
    if record.state is not ControlState.KILLED:
        return "-"
    if record.stopped_at is None:
        times = f", though sent {record.issued} times" if record.issued else ""
        return f"NEVER acknowledged{times}" if record.escalated_at else f"not acknowledged by an agent yet{times}"
    took = f" {record.time_to_stop_ms} ms after the decision" if record.time_to_stop_ms is not None else ""
    return f"the agent stopped{took}"


def _conclude(answer: Answer, text: str, *, as_json: bool) -> None:
    """Prints what happened; exit 1 when no worker has answered."""
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
            f"haltline: {text} within {answer.waited_s:g} s, came none. The command "
            f"({answer.command.command_id}) is kept and will be carried out when a worker runs"
        )
        raise typer.Exit(Exit.NO)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for function in (kill, reset, batch, label):
        app.command()(function)
