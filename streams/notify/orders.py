"""Which actuators are called for a kill, and with what. Pure, so a restart orders the same."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import quote

import orjson

from haltline.schemas.control import HALTLINE, ControlRecord, ControlState
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.notifications import OrderedKill
from haltline.schemas.record import rfc3339
from haltline.streams.notify.config import Actuator, Config, Resources, filled

OPERATOR: Final = "operator"
_TYPE: Final = "com.haltline.kill.ordered"
_SOURCE: Final = "/haltline/kills"


class BadValue(ValueError):
    """A value that cannot stand where the request has its name."""


@dataclass(frozen=True)
class Call:
    """One request, filled."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Order:
    """One actuator that is called for a kill."""

    message_id: str
    """A hash of the kill and the actuator: the same at each attempt and after a restart."""
    name: str
    actuator: Actuator
    kill: ControlRecord
    values: Mapping[str, str]
    """By name, of the agent's resources and of the kill."""

    @property
    def at_ms(self) -> int:
        """When the kill was ordered."""
        return self.kill.stands_since

    @property
    def about(self) -> OrderedKill:
        """The kill, for its record."""
        kill = self.kill
        return OrderedKill(
            scope=kill.scope, id=kill.id, decision_id=kill.decision_id, by=kill.by, disarm=self.actuator.disarm
        )

    def call(self) -> Call:
        """Return the request. Raises BadValue."""
        actuator, values = self.actuator, dict(self.values)
        headers = {name: _in_header(filled(text, values)) for name, text in actuator.headers.items()}
        body, kind = self._event(), "application/cloudevents+json; charset=utf-8"
        if actuator.body is not None:
            body, kind = _in_body(actuator.body, values), "application/json"
        named = {"content-type": kind, "webhook-id": self.message_id} | {k.lower(): v for k, v in headers.items()}
        return Call(actuator.method, _in_url(actuator.url, values), named, orjson.dumps(body))

    def _event(self) -> dict[str, Any]:
        """Return a structured CloudEvent."""
        return {
            "specversion": "1.0",
            "id": self.message_id,
            "source": _SOURCE,
            "type": _TYPE,
            "subject": self.kill.key,
            "time": rfc3339(self.at_ms),
            "datacontenttype": "application/json",
            "data": {
                "actuator": self.name,
                "kill": self.kill.model_dump(mode="json", exclude_none=True),
                "resources": dict(self.values),
            },
        }


def orders_of(config: Config, kill: ControlRecord) -> Iterator[Order]:
    """Yield what is ordered for an entry of `control`, what disarms first: nothing unless it kills a session or agent.

    An actuator is called if the kill has one of its causes and the agent's resources have all of its names.
    """
    if kill.state is not ControlState.KILLED or kill.scope not in (ScopeKind.SESSION, ScopeKind.AGENT):
        return
    of_kill = {"agent": kill.id, "decision": kill.decision_id, "by": kill.by}
    if kill.scope is ScopeKind.SESSION:
        of_kill |= {"agent": kill.agent_id, "session": kill.id}
    resources = _resources_of(config.resources, of_kill["agent"])
    values = {**_values(resources, of_kill), **of_kill}
    cause = kill.code.removeprefix(f"{kill.scope}_killed_") if kill.by == HALTLINE else OPERATOR
    for name, actuator in sorted(config.actuators.items(), key=lambda one: not one[1].disarm):
        if resources is not None and cause in actuator.causes and actuator.names <= values.keys():
            identity = f"{kill.decision_id}|{name}"
            message_id = f"act_{hashlib.sha256(identity.encode()).hexdigest()[:32]}"
            yield Order(message_id=message_id, name=name, actuator=actuator, kill=kill, values=values)


def example_kill(session_id: str, agent: str, cause: str, at_ms: int) -> ControlRecord:
    """Return a kill of a session as an operator, or a rule, would order it."""
    by_operator = cause == OPERATOR
    return ControlRecord(
        scope=ScopeKind.SESSION,
        id=session_id,
        state=ControlState.KILLED,
        code=f"session_killed_{'by_operator' if by_operator else cause}",
        reason="an example",
        decision_id="example",
        agent_id=agent,
        by=OPERATOR if by_operator else HALTLINE,
        since=at_ms,
    )


def _resources_of(resources: Resources, agent: str) -> dict[str, str] | None:
    """Return the entry of an agent; None: it has none."""
    if agent in resources:  # also an empty entry: nothing is called for this agent
        return resources[agent]
    return next((entry for glob, entry in resources.items() if fnmatchcase(agent, glob)), None)


def _values(resources: dict[str, str] | None, of_kill: dict[str, str]) -> dict[str, str]:
    """Return the values of resources; one with a name that the kill does not have, such as its session, is left out."""
    found = {}
    for name, text in (resources or {}).items():
        try:
            found[name] = filled(text, of_kill)
        except KeyError:
            continue
    return found


def _in_url(url: str, values: dict[str, str]) -> str:
    """Return an address in which each value is escaped, and no segment of the path climbs or is empty by a value."""
    scheme, _, rest = url.partition("://")
    path, mark, query = rest.partition("?")
    escaped = {name: quote(value, safe="") for name, value in values.items()}
    segments = []
    for segment in path.split("/"):
        whole = filled(segment, values)
        if whole != segment and (whole.strip(".") == "" or set("/\\") & set(whole) or not whole.isprintable()):
            raise BadValue(f"url: expected one segment of a path for {segment}, got {whole!r:.100}")
        segments.append(filled(segment, escaped))
    return f"{scheme}://{'/'.join(segments)}{mark}{filled(query, escaped)}"


def _in_header(text: str) -> str:
    if not (text.isascii() and text.isprintable()):
        raise BadValue(f"headers: expected printable ASCII, got {text!r:.100}")
    return text


def _in_body(body: Any, values: dict[str, str]) -> Any:
    """Return JSON with the values as text in its texts."""
    if isinstance(body, dict):
        return {name: _in_body(value, values) for name, value in body.items()}
    if isinstance(body, list):
        return [_in_body(one, values) for one in body]
    return filled(body, values) if isinstance(body, str) else body
