"""`haltline kill`, `freeze`, `approve` and the other acts in `schemas.acts`."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Annotated, Any

import typer

from haltline.cli.cluster import Cluster, with_cluster, with_options
from haltline.cli.common import AsJson, By, Exit, Reason, duration, fail
from haltline.schemas.acts import BATCH, LABEL, MISSED, ON_REQUESTS, ON_SCOPES, REQUIRED, Act, Field

Do = Callable[..., None]
"""Executes an act and prints its result; takes the act's name, and its fields by name."""


def add(app: typer.Typer, acts: Sequence[Act], do: Do, *, group: bool = True) -> None:
    """Adds the command of each act; `group`: with the option of the workers' group."""
    for act in acts:
        reason = {} if "reason" in act.fields else {"reason": Reason}
        options = {"by": By, **reason, **{name: _option(name, one) for name, one in act.fields.items()}}
        defaults = {name: one.default for name, one in act.fields.items() if one.default is not REQUIRED}
        command = with_options("given", dict, options, defaults)(_run(act.name, do))
        command = with_cluster("group", "timeout")(command) if group else with_cluster("timeout")(command)
        examples = (f"Example: haltline {one}" for one in act.examples)
        app.command(act.name, help="\n\n".join(filter(None, (act.help, act.more, *examples))))(command)


def _run(name: str, do: Do) -> Callable[..., None]:
    def run(*, given: dict[str, Any], at: Cluster, as_json: AsJson = False) -> None:
        do(name, at=at, as_json=as_json, **given)

    return run


def _option(name: str, one: Field) -> Any:
    """The typer parameter of a field."""
    more: dict[str, Any] = {"help": one.help, "metavar": one.shown_as}
    if one.positional:
        return Annotated[one.type, typer.Argument(**more)]
    if one.limits is not None:
        more |= dict(zip(("min", "max"), one.limits, strict=True))
    if one.type is timedelta:
        more |= {"parser": duration, "metavar": "TIME"}
    option = one.option or f"--{name.replace('_', '-')}"
    return Annotated[one.type, typer.Option(option, case_sensitive=False, **more)]


def _on_scope(name: str, *, scope: str, scope_id: str, at: Cluster, as_json: bool, **given: Any) -> None:
    """Freezes, contains, lifts or resets."""
    from haltline.cli.answers import NOTHING_TO_END, conclude, operator_of, outcome_of, whole_id
    from haltline.schemas.control import CommandKind
    from haltline.schemas.decisions import ScopeKind
    from haltline.streams.operator.known_sessions import HINT

    operator, of = operator_of(at), ScopeKind(scope)
    hint = HINT if "unknown" in given else NOTHING_TO_END
    scope_id = whole_id(operator, of, scope_id, unknown=given.pop("unknown", False), hint=hint)
    if given.get("session") is not None:
        given["session"] = whole_id(operator, ScopeKind.SESSION, given["session"], hint=NOTHING_TO_END)
    answer = operator.command(CommandKind(name), of, scope_id, **given)
    conclude(answer, outcome_of(answer), as_json=as_json)


def _kill(
    name: str,
    *,
    scope: str,
    scope_id: str,
    preview: bool,
    lookback: timedelta,
    until_stopped: bool,
    unknown: bool,
    at: Cluster,
    as_json: bool,
    **why: str,
) -> None:
    from haltline.cli.answers import conclude, operator_of, outcome_of, whole_id
    from haltline.cli.operator.blast_radius import show_impact, show_stopped
    from haltline.schemas.control import CommandKind
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
    of_one = until_stopped and of is ScopeKind.SESSION
    expected = find() if until_stopped and not of_one else None
    answer = operator.command(CommandKind(name), of, scope_id, until_stopped=of_one, **why)
    if expected is None or answer.after is None:
        conclude(answer, outcome_of(answer, until_stopped=of_one), as_json=as_json)
        return
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


def _batch(_: str, *, session: str, at: Cluster, as_json: bool, **given: Any) -> None:
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
    answer = operator.declare_batch(session, **given)
    declared = answer.command.batch
    text = f"batch of {named(answer)}: expected an answer from a worker"
    if answer.answered and declared is not None:
        covered = f"{declared.actions} on {', '.join(declared.targets) or 'any target'}"
        until = rfc3339(declared.expires)
        text = f"{named(answer)} may do {declared.max_deletes} destructive acts until {until}: {covered}{unheard}"
    conclude(answer, text, as_json=as_json)


def _label(_: str, *, decision: str, verdict: str, at: Cluster, as_json: bool, **why: str) -> None:
    from haltline.cli.answers import conclude, operator_of
    from haltline.streams.operator.command_factory import require_label

    operator = operator_of(at)
    require_label(verdict)
    meant = operator.decision(decision)
    answer = operator.label(meant, verdict, **why)
    about = f"decision {meant.decision_id} of {meant.detector} in session {meant.session_id}, {verdict}"
    conclude(answer, f"{about}: {_NOTED[answer.answered]}", as_json=as_json)


def _missed(_: str, *, session: str, rule: str, at: Cluster, as_json: bool, **why: str) -> None:
    from haltline.cli.answers import conclude, operator_of, whole_id
    from haltline.schemas.decisions import ScopeKind

    operator = operator_of(at)
    session = whole_id(operator, ScopeKind.SESSION, session, hint="no events of it were found")
    answer = operator.missed(session, rule, **why)
    conclude(answer, f"session {session}, missed by {rule}: {_NOTED[answer.answered]}", as_json=as_json)


_NOTED = {True: "is noted", False: "expected an answer from a worker"}


def _on_request(name: str, **given: Any) -> None:
    from haltline.cli.operator.approval_answers import answer
    from haltline.schemas.control import CommandKind

    answer(CommandKind(name), **given)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    add(app, ON_SCOPES[:1], _kill)
    add(app, ON_SCOPES[1:], _on_scope)
    add(app, [BATCH], _batch)
    add(app, [LABEL], _label)
    add(app, [MISSED], _missed)
    add(app, ON_REQUESTS, _on_request, group=False)
