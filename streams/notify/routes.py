"""Route changes of incidents to channels, with the time at which each is due. Pure: the same after every restart."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from haltline.schemas.decisions import ApprovalState
from haltline.schemas.incidents import IncidentChange, IncidentRecord, IncidentState
from haltline.streams.notify.config import AtLeast, Config, Kind, Match, Route
from haltline.streams.notify.hours import over_at, within

FOLLOWED: Final = ""
"""The route of what a channel receives because it was notified of the incident before."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One change to one channel."""

    notification_id: str
    channel: str
    route: str
    due_ms: int
    """When it is to be sent; at or before the moment of the change: at once."""
    digest: str | None = None
    """What is due with the same one is one message; None: a message of its own."""


def kind_of(record: IncidentRecord) -> Kind:
    """What the change is to routes."""
    if record.change is IncidentChange.APPROVAL:
        return Kind.APPROVAL_WANTED if record.request_id is not None else Kind.APPROVAL_CLOSED
    return Kind(record.change.value)


def notification_id(record: IncidentRecord, channel: str) -> str:
    """Of this change to this channel, whatever route it takes."""
    identity = f"{record.incident_id}|{record.revision}|{channel}"
    return f"ntf_{hashlib.sha256(identity.encode()).hexdigest()[:32]}"


def plan(record: IncidentRecord, at_ms: int, config: Config, already: Sequence[str] = ()) -> tuple[Planned, ...]:
    """Each channel once, by the first route that leads to it.

    `at_ms` is the time of the record on its topic, so that a restart plans alike. `already` are the channels that were
    notified of this incident: those that keep a state of their own receive its acknowledgement and its end, whatever
    the routes say by then.
    """
    kind, found = kind_of(record), dict[str, Planned]()
    for route in _matching(record, at_ms, config):
        for channel in route.channels:
            if channel not in found:
                due_ms, digest = _due(record, at_ms, route)
                found[channel] = Planned(
                    notification_id=notification_id(record, channel),
                    channel=channel,
                    route=route.name,
                    due_ms=due_ms,
                    digest=None if config.channels[channel].keeps_state else digest,
                )
    if record.state is not IncidentState.OPEN and kind in (Kind.ACKNOWLEDGED, Kind.RESOLVED):
        for channel in already:
            if channel not in found and channel in config.channels and config.channels[channel].keeps_state:
                found[channel] = Planned(
                    notification_id=notification_id(record, channel), channel=channel, route=FOLLOWED, due_ms=at_ms
                )
    return tuple(found.values())


def _matching(record: IncidentRecord, at_ms: int, config: Config) -> Iterator[Route]:
    kinds = {kind_of(record)}
    if record.approval is ApprovalState.PENDING and record.request_id is not None:
        kinds.add(Kind.APPROVAL_WANTED)
    for route in config.routes:
        if _holds(record, at_ms, route.match) and (
            not kinds.isdisjoint(route.changes)
            or (Kind.OPENED in route.changes and _is_new_to(record, at_ms, route.match))
        ):
            yield route
            if not route.go_on:
                return


def _is_new_to(record: IncidentRecord, at_ms: int, match: Match) -> bool:
    """Whether the change has made it what the route matches. A release that does not say what it was escalates only."""
    if record.before is None:
        return record.change is IncidentChange.ESCALATED
    return not _holds(record.model_copy(update=dict(record.before)), at_ms, match)


def _holds(record: IncidentRecord, at_ms: int, match: Match) -> bool:
    return (
        (match.level is None or record.level >= match.level)
        and (match.severity is None or (record.severity is not None and record.severity >= match.severity))
        and any(_like(cause, match.cause) for cause in record.causes or (record.cause,))
        and _like(record.agent_id, match.agent)
        and _like(record.mission_id or "", match.mission)
        and (not match.scope or record.scope in match.scope)
        and (not match.during or within(match.during, at_ms))
    )


def _like(text: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(text, pattern) for pattern in patterns)


def _reaches(record: IncidentRecord, least: AtLeast) -> bool:
    return (least.level is not None and record.level >= least.level) or (
        least.severity is not None and record.severity is not None and record.severity >= least.severity
    )


def _due(record: IncidentRecord, at_ms: int, route: Route) -> tuple[int, str | None]:
    """When, and with what else."""
    if _reaches(record, route.at_once):
        return at_ms, None
    due_ms = at_ms
    by = ""
    if route.digest is not None:
        every_ms = round(route.digest.every.total_seconds() * 1000)
        due_ms = (at_ms // every_ms + 1) * every_ms
        by = "|".join(_value(record, name) for name in route.digest.by)
    due_ms = over_at(route.quiet, due_ms)
    return due_ms, None if due_ms == at_ms else f"{route.name}|{due_ms}|{by}"


def _value(record: IncidentRecord, name: str) -> str:
    values = {
        "agent": record.agent_id,
        "mission": record.mission_id,
        "cause": record.cause,
        "session": record.session_id,
        "level": record.level.value,
    }
    return values[name] or ""
