"""`haltline freeze`, `contain`, `lift`: to hold without killing."""

import typer

from haltline.cli.answers import NOTHING_TO_END, Unknown, conclude, named, operator_of, story, whole_id
from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import (
    AsJson,
    By,
    Reason,
)
from haltline.cli.operator.kill_and_reset import Scope, ScopeId
from haltline.schemas.control import CommandKind
from haltline.schemas.decisions import ScopeKind
from haltline.streams.operator.known_sessions import HINT


@with_cluster("group", "timeout")
def freeze(
    *,
    by: By,
    reason: Reason,
    scope_id: ScopeId = "",
    scope: Scope = ScopeKind.SESSION,
    unknown: Unknown = False,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Refuse every call of a session, agent or mission, of one tool, or about one target, until it is lifted.

    Example: haltline freeze --scope target asset_id=fact_sales --by ada --reason 'is being restored'
    """
    _hold(at, CommandKind.FREEZE, scope, scope_id, by=by, reason=reason, unknown=unknown, as_json=as_json)


@with_cluster("group", "timeout")
def contain(
    *,
    by: By,
    reason: Reason,
    scope_id: ScopeId = "",
    scope: Scope = ScopeKind.SESSION,
    unknown: Unknown = False,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Let a session, an agent or the fleet only read, until it is lifted.

    What only looks is known by a tool's name (get_*, list_*, read_* ...) or its declared effect; all else is refused.

    Example: haltline contain session-42 --by ada --reason 'we look at what it did'
    """
    _hold(at, CommandKind.CONTAIN, scope, scope_id, by=by, reason=reason, unknown=unknown, as_json=as_json)


@with_cluster("group", "timeout")
def lift(
    *,
    by: By,
    reason: Reason,
    scope_id: ScopeId = "",
    scope: Scope = ScopeKind.SESSION,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """End what was frozen or contained. A kill needs a reset.

    Example: haltline lift --scope target asset_id=fact_sales --by ada --reason 'restored'
    """
    _hold(at, CommandKind.LIFT, scope, scope_id, by=by, reason=reason, hint=NOTHING_TO_END, as_json=as_json)


def _hold(
    at: Cluster,
    kind: CommandKind,
    scope: ScopeKind,
    scope_id: str,
    *,
    by: str,
    reason: str,
    as_json: bool,
    unknown: bool = False,
    hint: str = HINT,
) -> None:
    operator = operator_of(at)
    answer = operator.hold(
        kind, scope, whole_id(operator, scope, scope_id, unknown=unknown, hint=hint), by=by, reason=reason
    )
    if answer.second_wanted:
        conclude(answer, f"{named(answer)}: {kind} is noted; a second operator has to ask for it too", as_json=as_json)
    elif not answer.answered:
        conclude(answer, f"{named(answer)}: expected an answer from a worker", as_json=as_json)
    elif answer.after is not None and kind is not CommandKind.LIFT:
        conclude(answer, f"{named(answer)} is {answer.after.state}: {story(answer.after)}", as_json=as_json)
    else:
        conclude(answer, f"{named(answer)} is free", as_json=as_json)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for function in (freeze, contain, lift):
        app.command()(function)
