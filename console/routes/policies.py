"""`/api/v1/policies`: the documents that workers follow."""

from datetime import timedelta
from functools import cache
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, HTTPException, Response
from pydantic import BaseModel, Field

from haltline.console.context import Context, ContextDep, OperatorClient, PolicyAdmin, Viewer
from haltline.console.http.routing import UNUSABLE, StrictRoute
from haltline.schemas.policy import Exemption, Policy
from haltline.schemas.record import JsonObject, rfc3339
from haltline.streams.engine.plugins import installed
from haltline.streams.operator.command_factory import NotAllowed, now_ms
from haltline.streams.policy.json_schema import policy_schema
from haltline.streams.policy.loader import BadPolicy, in_vain, parse_policy
from haltline.streams.policy.mutes import Change, Mute, muted, mutes_of, publish_changed, unmuted
from haltline.streams.policy.publish import publish
from haltline.streams.policy.source import current, policy_of

router = APIRouter(prefix="/api/v1/policies", tags=["policies"], route_class=StrictRoute)


class PolicySummary(BaseModel):
    """One published document."""

    name: str
    version: int
    by: str
    reason: str
    published_at: str


class Document(BaseModel):
    """A policy document."""

    document: Annotated[
        str | JsonObject,
        Field(examples=["name: default\nrules:\n  destructive_repeat:\n    mode: warn\n"]),
    ]
    """As YAML or JSON text, or as an object."""


class Publication(Document):
    """A document to put in force, and the reason."""

    reason: Annotated[str, Field(min_length=1, max_length=4096, examples=["clean-up of staging is over"])]


class MuteEnd(BaseModel):
    """The end of a mute."""

    rule: Annotated[str, Field(min_length=1, max_length=256)]
    agent: Annotated[str, Field(min_length=1, max_length=256)]
    reason: Annotated[str, Field(min_length=1, max_length=4096)]


class NewMute(MuteEnd):
    """A rule to be muted for an agent, and for how long."""

    lasts: Annotated[timedelta, Field(gt=timedelta(), le=timedelta(days=366))] = timedelta(days=1)


class PolicyCheck(BaseModel):
    """The result of checking a document like a worker."""

    name: str
    version: int
    in_vain: list[str]
    """Lines about settings without effect."""


class PolicyPublished(PolicyCheck):
    """Where it was published."""

    partition: int
    offset: int


@router.get("/schema", response_model=JsonObject)
def schema(_: Viewer) -> Response:
    """The JSON Schema of a document, with the settings of every rule, for an editor to complete."""
    return Response(_schema(), media_type="application/json")


@cache
def _schema() -> bytes:
    return orjson.dumps(policy_schema(installed()))


@router.get("")
def policies(here: ContextDep, _: Viewer) -> list[PolicySummary]:
    """Every published document. Workers whose policy name has none use the defaults."""
    return [_listed(name, document) for name, document in sorted(_documents(here).items())]


@router.get("/{name}", responses={404: {"description": "None of this name was published."}})
def policy(here: ContextDep, _: Viewer, name: str) -> JsonObject:
    """One published document."""
    document = _documents(here).get(name)
    if document is None:
        raise HTTPException(404, f"policy {name}: expected one that was published, got none of this name")
    return document


@router.post("/check", responses=UNUSABLE)
def check(_: Viewer, body: Document) -> PolicyCheck:
    """Checks whether a worker could use a document."""
    found = read_document(body.document)
    return PolicyCheck(name=found.name, version=found.version, in_vain=in_vain(found, installed()))


@router.post("", status_code=201, responses=UNUSABLE)
def put_in_force(here: ContextDep, who: PolicyAdmin, body: Publication) -> PolicyPublished:
    """Puts a document in force in every worker that follows its name, without a restart."""
    found = read_document(body.document)
    try:
        written, place = publish(
            found,
            bootstrap=here.settings.bootstrap,
            topic=here.settings.topics.policies,
            by=who.name,
            reason=body.reason,
            time_ms=now_ms(),
            client=here.settings.client,
        )
    except BadPolicy as older:
        raise NotAllowed(str(older)) from None
    here.feeder.wait_for(place, 5.0)
    return PolicyPublished(
        name=written.name,
        version=written.version,
        in_vain=in_vain(written, installed()),
        partition=place.partition,
        offset=place.offset,
    )


@router.get("/{name}/mutes")
def mutes(here: ContextDep, _: Viewer, name: str) -> list[Mute]:
    """The rules that are muted for an agent now."""
    record = current(here.settings.bootstrap, here.settings.topics.policies, client=here.settings.client).get(name)
    return [] if record is None else mutes_of(policy_of(record, name, installed()), now_ms())


@router.post("/{name}/mutes", status_code=201, responses=UNUSABLE)
def mute(here: ContextDep, who: OperatorClient, name: str, body: NewMute) -> list[Mute]:
    """Mutes a rule for an agent until a time: its findings are recorded as in shadow, and do nothing.

    Budgets are never muted, nor what operators stop.
    """
    time_ms = now_ms()
    until_ms = time_ms + body.lasts // timedelta(milliseconds=1)
    exemption = Exemption(by=who.name, reason=body.reason, expires=until_ms)
    change = muted(body.rule, body.agent, exemption, now_ms=time_ms, plugins=installed())
    return _publish_changed(here, who.name, name, body.reason, change)


@router.post("/{name}/unmute", responses=UNUSABLE)
def unmute(here: ContextDep, who: OperatorClient, name: str, body: MuteEnd) -> list[Mute]:
    """Ends a mute."""
    return _publish_changed(here, who.name, name, body.reason, unmuted(body.rule, body.agent))


def _publish_changed(here: Context, by: str, name: str, reason: str, change: Change) -> list[Mute]:
    try:
        policy, place = publish_changed(
            change,
            name,
            bootstrap=here.settings.bootstrap,
            topic=here.settings.topics.policies,
            by=by,
            reason=reason,
            time_ms=now_ms(),
            plugins=installed(),
            client=here.settings.client,
        )
    except BadPolicy as refused:
        raise NotAllowed(str(refused)) from None
    here.feeder.wait_for(place, 5.0)
    return mutes_of(policy, now_ms())


def read_document(document: str | JsonObject) -> Policy:
    """Parse a document into a policy. Raises HTTPException: where, what was expected and what was received."""
    try:
        text = document if isinstance(document, str) else orjson.dumps(document).decode()
        return parse_policy(text, "document", installed())
    except (BadPolicy, orjson.JSONEncodeError) as error:
        raise HTTPException(400, str(error)) from None


def _documents(here: Context) -> dict[str, dict[str, Any]]:
    records = current(here.settings.bootstrap, here.settings.topics.policies, client=here.settings.client)
    found: dict[str, dict[str, Any]] = {}
    for name, record in records.items():
        try:
            document = orjson.loads(record.value or b"")
        except orjson.JSONDecodeError:
            continue
        if isinstance(document, dict):
            found[name] = document | {"published": {"time": record.timestamp} | (document.get("published") or {})}
    return found


def _listed(name: str, document: dict[str, Any]) -> PolicySummary:
    published = document["published"]
    when = published["time"]
    return PolicySummary(
        name=name,
        version=document.get("version", Policy().version),
        by=published.get("by", "?"),
        reason=published.get("reason", "?"),
        published_at=rfc3339(when) if isinstance(when, int) else str(when),
    )
