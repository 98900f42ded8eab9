"""Decisions of another policy on past sessions, from the read model or the audit table."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from haltline.console.read_model.history import core_of, count_since, events_of, labels_of, sessions_since
from haltline.console.settings import ConsoleSettings
from haltline.schemas.policy import Policy
from haltline.streams.replay import history
from haltline.streams.replay.backtest import Recorded, Result, related, together
from haltline.streams.replay.table_range import TableRange
from haltline.streams.replay.time_range import Moment
from haltline.streams.replay.whatif import SAME, Totals, change_of, totals_of

MAX_EVENTS = 5_000
"""The most events of one session: its first ones."""


@dataclass(frozen=True)
class Past:
    """Past sessions, and how many there are in all."""

    sessions: Sequence[Recorded]
    of: int
    """The number of sessions in the requested time range."""


@dataclass(frozen=True)
class Compared:
    """Results of two policies on the same sessions."""

    before: Totals
    after: Totals
    changed: Sequence[tuple[Result, Result, str]]
    """The sessions that differ: the result of the policy in force, of the other, and the difference."""


def of_read_model(engine: Engine, since_ms: int, most: int) -> Past:
    """The latest sessions in the read model, with the operators' labels."""
    labels = history.labels_of(labels_of(engine))
    sessions = []
    for name in sessions_since(engine, since_ms, most):
        events = {event.event_id: event for event in events_of(engine, name, MAX_EVENTS)}
        sessions.append(Recorded(name, tuple(enumerate(events.values())), label=labels.get(name)))
    return Past([one for one in sessions if one.events], count_since(engine, since_ms))


def of_audit(settings: ConsoleSettings, since_ms: int, most: int) -> Past:
    """The latest sessions of the audit table. Raises QueryFailed: there is no table, or nothing in this time range."""
    found = TableRange(
        settings.audit_table or "", settings.topics, Moment(time_ms=since_ms), storage_options=settings.audit_options
    )
    sessions = history.sessions_of(found)
    latest = sorted(sessions, key=lambda one: -max((event.time for _, event in one.events), default=0))
    return Past(latest[:most], len(sessions))


def compare(past: Past, before: Policy, after: Policy) -> Compared:
    """Compare two policies on sessions; those of one tree are evaluated together, all others separately."""
    first, second = (_run(past.sessions, policy) for policy in (before, after))
    pairs = [(old, new, change_of(new, old)) for old, new in zip(first, second, strict=True)]
    return Compared(totals_of(first), totals_of(second), [one for one in pairs if one[2] != SAME])


def _run(sessions: Sequence[Recorded], policy: Policy) -> list[Result]:
    core = core_of(policy)
    results = {one.session_id: one for group in related(sessions) for one in together(core, group)}
    return [results[session.session_id] for session in sessions]
