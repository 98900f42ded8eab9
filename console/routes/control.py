"""Restrictions in force, and operators' commands on them: kills, freezes, containments, and their ends."""

from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter
from pydantic import BaseModel, Field, create_model

from haltline.console.context import ContextDep, OperatorClient, Viewer
from haltline.console.http.routing import StrictRoute
from haltline.console.ids import whole
from haltline.schemas.acts import ON_SCOPES, Act
from haltline.schemas.acts import Field as ActField
from haltline.schemas.control import CommandKind
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.record import JsonObject
from haltline.streams.operator.client import CommandResult

router = APIRouter(prefix="/api/v1", tags=["control"], route_class=StrictRoute)

_UNHEARD: Final[dict[int | str, JsonObject]] = {
    404: {"description": "No events of a session, agent or mission with this id were found."},
    409: {"description": "Several begin so, or it may not be done to what stands."},
}


class ControlRequest(BaseModel):
    """An operator's command: scope, id and reason. The id of a session, agent or mission may be shortened."""

    scope: ScopeKind = ScopeKind.SESSION
    id: Annotated[str, Field(min_length=1, max_length=256)]
    reason: Annotated[str, Field(min_length=1, max_length=4096)]
    unknown: bool = False
    """Accept an `id` that no event has named yet; it will be stopped when it starts."""


class CommandOutcome(BaseModel):
    """The outcome of an operator's command."""

    command_id: str
    answered: bool
    """Whether a worker has carried it out; if not, it stays on the topic for when one runs."""
    second_wanted: bool
    """It is recorded, and a second operator must confirm it."""
    state: JsonObject | None
    """What is in force now."""
    ended: bool
    """The session has ended before: nothing of it runs."""


def _answered(answer: CommandResult, *, ended: bool) -> CommandOutcome:
    after = None if answer.after is None else orjson.loads(answer.after.to_json())
    return CommandOutcome(
        command_id=answer.command.command_id,
        answered=answer.answered,
        second_wanted=answer.second_wanted,
        state=after,
        ended=ended,
    )


@router.get("/control")
def standing(here: ContextDep, _: Viewer) -> list[JsonObject]:
    """The entries of `control`: all that is killed, frozen, contained or on probation, the oldest first."""
    return [orjson.loads(row["body"]) for row in here.kept.rows("control", order=("since_ms", "key"))]


def _add(act: Act) -> None:
    """Add the route of an act: its body has the act's own fields besides the common ones."""
    own: dict[str, Any] = {
        name: (one.type, Field(description=one.help, **_limits(one)))
        for name, one in act.fields.items()
        if one.over_http and name not in {"scope", "scope_id", *ControlRequest.model_fields}
    }
    model: Any = create_model(f"{act.name.title()}Request", __base__=ControlRequest, __doc__=act.help, **own)

    def give(here: ContextDep, who: OperatorClient, act_on: ControlRequest) -> CommandOutcome:
        given = {name: getattr(act_on, name) for name in own}
        if given.get("session") is not None:
            given["session"] = whole(here, ScopeKind.SESSION, given["session"])
        scope_id = whole(here, act_on.scope, act_on.id, unknown=act_on.unknown)
        answer = here.inbox.command(
            CommandKind(act.name), act_on.scope, scope_id, by=who.name, reason=act_on.reason, **given
        )
        of_session = act_on.scope is ScopeKind.SESSION
        ended = of_session and here.kept.count("sessions", ("session_id", "=", scope_id), ("ended", "=", True)) > 0
        return _answered(answer, ended=ended)

    give.__annotations__["act_on"] = model
    router.post(f"/{act.name}", name=act.name, description=act.help, responses=_UNHEARD)(give)


def _limits(one: ActField) -> dict[str, Any]:
    limits = {} if one.limits is None else dict(zip(("ge", "le"), one.limits, strict=True))
    return limits | {"default": one.default}


for _act in ON_SCOPES:
    _add(_act)
