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
"""The route name of follow-ups, which a channel receives because it was notified of the incident before."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One planned notification: a change to a channel."""

    notification_id: str
    channel: str
    route: str
    due_ms: int
    """The due time; at or before the time of the change: at once."""
    digest: str | None = None
    """The group: items of one group with the same due time are one message; None: a separate message."""


def kind_of(record: IncidentRecord) -> Kind:
    """Return the kind of the change, for routes."""
    if record.change is IncidentChange.APPROVAL:
        return Kind.APPROVAL_WANTED if record.request_id is not None else Kind.APPROVAL_CLOSED
    return Kind(record.change.value)


def notification_id(record: IncidentRecord, channel: str) -> str:
    """Return the id of this change to this channel, independent of its route."""
    identity = f"{record.incident_id}|{record.revision}|{channel}"
    return f"ntf_{hashlib.sha256(identity.encode()).hexdigest()[:32]}"


def plan(record: IncidentRecord, at_ms: int, config: Config, already: Sequence[str] = ()) -> tuple[Planned, ...]:
    """Plan the change for each channel once, by the first route that leads to it.

    `at_ms` is the time of the record on its topic, so that the plan is the same after a restart. `already` are the
    channels notified of this incident before: those that keep a state of their own receive its acknowledgement and its
    end, whatever the routes are by then.
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
    """Return whether the incident now newly matches. Records without a previous state only escalate."""
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
    """Return the due time and the group."""
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
