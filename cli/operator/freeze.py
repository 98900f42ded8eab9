"""`haltline freeze`, `contain`, `lift`: to hold without killing."""

from typing import Literal

import typer

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, By, Reason, Scope, ScopeId, ScopeName, Unknown


@with_cluster("group", "timeout")
def freeze(
    *,
    by: By,
    reason: Reason,
    scope_id: ScopeId = "",
    scope: Scope = "session",
    unknown: Unknown = False,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Refuse every call of a session, agent or mission, of one tool, or about one target, until it is lifted.

    Example: haltline freeze --scope target asset_id=fact_sales --by ada --reason 'is being restored'
    """
    _hold(at, "freeze", scope, scope_id, by=by, reason=reason, unknown=unknown, as_json=as_json)


@with_cluster("group", "timeout")
def contain(
    *,
    by: By,
    reason: Reason,
    scope_id: ScopeId = "",
    scope: Scope = "session",
    unknown: Unknown = False,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Allow only reads of a session, an agent or the fleet; every other call is refused until it is lifted.

    A read is known by the tool's name (get_*, list_*, read_* ...) or its declared effect.

    Example: haltline contain session-42 --by ada --reason 'under investigation'
    """
    _hold(at, "contain", scope, scope_id, by=by, reason=reason, unknown=unknown, as_json=as_json)


@with_cluster("group", "timeout")
def lift(
    *,
    by: By,
    reason: Reason,
    scope_id: ScopeId = "",
    scope: Scope = "session",
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """End a freeze or a containment. A kill needs a reset.

    Example: haltline lift --scope target asset_id=fact_sales --by ada --reason 'restored'
    """
    _hold(at, "lift", scope, scope_id, by=by, reason=reason, as_json=as_json)


def _hold(
    at: Cluster,
    command: Literal["freeze", "contain", "lift"],
    scope: ScopeName,
    scope_id: str,
    *,
    by: str,
    reason: str,
    as_json: bool,
    unknown: bool = False,
) -> None:
    from haltline.cli.answers import NOTHING_TO_END, conclude, named, operator_of, story, whole_id
    from haltline.schemas.control import CommandKind
    from haltline.schemas.decisions import ScopeKind
    from haltline.streams.operator.known_sessions import HINT

    operator = operator_of(at)
    kind, of = CommandKind(command), ScopeKind(scope)
    hint = NOTHING_TO_END if kind is CommandKind.LIFT else HINT
    answer = operator.hold(kind, of, whole_id(operator, of, scope_id, unknown=unknown, hint=hint), by=by, reason=reason)
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
