"""`haltline kill`, `reset`, `batch`, `label`: what an operator asks of the worker."""

from datetime import timedelta
from functools import partial
from typing import Annotated

import typer

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, By, Exit, Reason, Scope, ScopeId, Session, Unknown, duration, fail


@with_cluster("group", "timeout")
def kill(
    *,
    by: By,
    reason: Reason,
    scope_id: ScopeId = "",
    scope: Scope = "session",
    preview: Annotated[bool, typer.Option("--preview", help="Only list the sessions that it would stop.")] = False,
    lookback: Annotated[
        timedelta,
        typer.Option("--lookback", help="How far back to look for active sessions.", parser=duration, metavar="TIME"),
    ] = timedelta(hours=1),
    until_stopped: Annotated[
        bool, typer.Option("--until-stopped", help="Wait until the agents acknowledge the stop; list those that did.")
    ] = False,
    unknown: Unknown = False,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Stop a session, or every session of an agent, tool, target, mission or the fleet, now.

    The id of a session, an agent or a mission may be shortened; one without any events is refused (exit 1),
    except with --unknown: then it is stopped if it starts, and the command waits for no agent.

    --preview lists them, by the events of the last --lookback, and changes nothing. The fleet takes two operators, each
    with this command. Doing it twice does no harm. Exit 1 when no worker answers in time (the command is kept for when
    one runs), or when not all have stopped in time.

    Example: haltline kill session-42 --by ada --reason 'deletes the wrong schema'

    Example: haltline kill --scope agent cleaner --preview --by ada --reason 'catalogue is being restored'
    """
    from haltline.cli.answers import conclude, named, operator_of, story, whole_id
    from haltline.cli.operator.blast_radius import show_impact, show_stopped
    from haltline.schemas.control import ControlState
    from haltline.schemas.decisions import ScopeKind
    from haltline.streams.operator.blast_radius import preview as find_impact
    from haltline.streams.operator.blast_radius import wait_for_stops

    of = ScopeKind(scope)
    if unknown and until_stopped and of is ScopeKind.SESSION:
        fail(
            "--until-stopped cannot be used with --unknown: no event of this session can confirm that it stopped",
            Exit.USAGE,
        )
    operator = operator_of(at)
    scope_id = whole_id(operator, of, scope_id, unknown=unknown)
    find = partial(find_impact, at.bootstrap, at.topics, of, scope_id, lookback=lookback, client=at.client_config)
    if preview:
        show_impact(find(), lookback, as_json=as_json)
        return
    of_many = until_stopped and of is not ScopeKind.SESSION
    expected = find() if of_many else None
    answer = operator.kill(of, scope_id, by=by, reason=reason, until_stopped=until_stopped and not of_many)
    if answer.second_wanted:
        conclude(answer, f"{named(answer)}: it is noted; a second operator has to ask for it too", as_json=as_json)
    elif not answer.answered or answer.after is None:
        what = "that it stopped" if until_stopped and not of_many else "from a worker"
        conclude(answer, f"{named(answer)}: expected an answer {what}", as_json=as_json)
    elif expected is None:
        before = answer.before
        again = "was killed already" if before is not None and before.state is ControlState.KILLED else "is killed"
        conclude(answer, f"{named(answer)} {again}: {story(answer.after)}", as_json=as_json)
    else:
        stopped = wait_for_stops(
            at.bootstrap,
            at.topics,
            answer.after.decision_id,
            (seen.session_id for seen in expected.sessions),
            since_ms=answer.after.since,
            within_s=at.timeout,
            client=at.client_config,
        )
        show_stopped(answer, stopped, as_json=as_json)


@with_cluster("timeout")
def reset(
    *,
    by: By,
    reason: Reason,
    scope_id: ScopeId = "",
    scope: Scope = "session",
    probation: Annotated[
        int | None,
        typer.Option(help="Actions on probation; left out: as the policy says.", min=0, max=10_000),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option("--only", help="Release only this session of --scope.", metavar="SESSION"),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also within the lockout; two different operators do so, one after the other."),
    ] = False,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Release what was killed; a session starts again, on probation. A reason is required.

    On probation, for some actions, limits are lower and a refusal is a kill; after such a kill a reset is refused
    until the lockout is over. Doing it twice does no harm. Exit 1 when no worker answers in time: the command is kept.

    Example: haltline reset session-42 --by ada --reason 'task corrected: report instead of deleting'

    Example: haltline reset --scope agent cleaner --only session-42 --by ada --reason 'this one only reads'
    """
    from haltline.cli.answers import NOTHING_TO_END, conclude, named, operator_of, story, whole_id
    from haltline.interventions.control.probation import CLOSED
    from haltline.schemas.control import ControlState
    from haltline.schemas.decisions import ScopeKind

    operator, of = operator_of(at), ScopeKind(scope)
    scope_id = whole_id(operator, of, scope_id, hint=NOTHING_TO_END)
    if only is not None:
        only = whole_id(operator, ScopeKind.SESSION, only, hint=NOTHING_TO_END)
        answer = operator.spare(of, scope_id, only, by=by, reason=reason)
        what = "is released from it" if answer.answered else "expected an answer from a worker"
        conclude(answer, f"{named(answer)}: session {only} {what}", as_json=as_json)
        return
    answer = operator.reset(of, scope_id, by=by, reason=reason, probation_actions=probation, force=force)
    if not answer.answered and force:
        conclude(answer, f"{named(answer)}: expected a second operator's reset --force, or a worker", as_json=as_json)
    elif answer.after is not None and answer.after.code == CLOSED:
        conclude(answer, f"{named(answer)} stays closed: the policy asks for a new session", as_json=as_json)
    elif not answer.answered:
        conclude(answer, f"{named(answer)}: expected an answer from a worker", as_json=as_json)
    elif answer.before is None or answer.before.state is ControlState.PROBATION:
        conclude(answer, f"{named(answer)} was not killed; what was counted is forgotten", as_json=as_json)
    else:
        on = answer.after.actions_left if answer.after is not None else None
        held = f", on probation for {on} actions" if on else ""
        conclude(answer, f"{named(answer)} is released{held}. It was killed: {story(answer.before)}", as_json=as_json)


@with_cluster("group", "timeout")
def batch(
    *,
    session: Session,
    by: By,
    reason: Reason,
    max_deletes: Annotated[int, typer.Option(help="How many destructive actions are expected.", min=1, max=1_000_000)],
    actions: Annotated[str, typer.Option(help="Tools it covers, a glob.", metavar="GLOB")] = "*",
    targets: Annotated[
        list[str] | None,
        typer.Option(help="Targets it covers, a glob such as 'asset_id=stg_*'; may be repeated.", metavar="GLOB"),
    ] = None,
    lasts: Annotated[
        timedelta,
        typer.Option("--for", help="How long it holds, at most 8h.", parser=duration, metavar="TIME"),
    ] = timedelta(hours=1),
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Declare a bulk clean-up in advance, so that its volume does not stop the session.

    The session need not have started. The same target twice still counts as a loop. Exit 1 when no worker answers in
    time.

    Example: haltline batch night-7 --max-deletes 100 --targets 'asset_id=stg_*' --by ada --reason 'staging clean-up'
    """
    from haltline.cli.answers import conclude, named, operator_of, whole_id
    from haltline.schemas.decisions import ScopeKind
    from haltline.schemas.record import rfc3339
    from haltline.streams.operator.ids import NotFound

    operator = operator_of(at)
    unheard = ""
    try:
        session = whole_id(operator, ScopeKind.SESSION, session)
    except NotFound:
        unheard = "; no events of this session were found yet"
    answer = operator.declare_batch(
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
        until = rfc3339(declared.expires)
        text = f"{named(answer)} may do {max_deletes} destructive acts until {until}: {covered}{unheard}"
        conclude(answer, text, as_json=as_json)
    else:
        conclude(answer, f"batch of {named(answer)}: expected an answer from a worker", as_json=as_json)


@with_cluster("group", "timeout")
def label(
    *,
    decision: Annotated[str, typer.Argument(help="The decision's id, or its beginning.", metavar="DECISION")],
    verdict: Annotated[str, typer.Argument(help="confirmed or false_alarm", metavar="LABEL")],
    by: By,
    reason: Reason,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Record whether a rule's decision was right, for the audit and the tuning of thresholds.

    Exit 1 when there is no such decision; an operator's own kill has no rule to be right about (exit 2). The ids are
    in `haltline tail --topic interventions`.

    Example: haltline label 9f3c0a77 false_alarm --by ada --reason 'was the nightly clean-up'
    """
    from haltline.cli.answers import conclude, operator_of
    from haltline.streams.operator.command_factory import require_label

    operator = operator_of(at)
    require_label(verdict)
    meant = operator.decision(decision)
    answer = operator.label(meant, verdict, by=by, reason=reason)
    status = "is noted" if answer.answered else "expected an answer from a worker"
    about = f"decision {meant.decision_id} of {meant.detector} in session {meant.session_id}"
    conclude(answer, f"{about}, {verdict}: {status}", as_json=as_json)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for function in (kill, reset, batch, label):
        app.command()(function)
