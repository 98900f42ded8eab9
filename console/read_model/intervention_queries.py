"""Queries of interventions: pages, single ones, and statistics."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from math import fsum
from typing import Annotated, Any, Final

from fastapi import Query
from sqlalchemy import BigInteger, ColumnElement, Connection, Engine, and_, cast, func, select, true

from haltline.console.http.routing import From, Until
from haltline.console.read_model import tables
from haltline.console.read_model.sql import Sql
from haltline.console.read_model.tallies import MS_PER_DAY
from haltline.console.read_model.text_search import matching
from haltline.schemas.intervention_records import RecordOutcome, RecordType, RiskLevel

MOST_COUNTED: Final = 10_000
"""The latest matches of a text search that are looked at."""
_TOP: Final = 10
_AGENTS: Final = 20
"""The most agents in the counts by level."""
_HIGH: Final = (RiskLevel.HIGH.value, RiskLevel.CRITICAL.value)
_I: Final = tables.interventions.c
_T: Final = tables.tallies.c


@dataclass(frozen=True, kw_only=True)
class InterventionFilter:
    """A filter of interventions; None: any. Its fields are the parameters of the routes that list and count them."""

    type: RecordType | None = None
    outcome: RecordOutcome | None = None
    risk_level: RiskLevel | None = None
    action_name: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    policy_id: str | None = None
    start_ms: From = None
    end_ms: Until = None
    search: Annotated[
        str | None,
        Query(
            max_length=200,
            description="A part of the id, action, reason, target, rule, agent or session; 10,000 matches are counted.",
        ),
    ] = None
    """Case is ignored."""
    min_prevented_usd: Annotated[
        float | None, Query(ge=0, allow_inf_nan=False, description="More than this was prevented.")
    ] = None
    trips_only: Annotated[bool, Query(description="Only what did more than warn.")] = False
    high_risk: Annotated[bool, Query(description="Only blocked ones of high or critical risk.")] = False
    """The same condition as for the count `high_risk_blocks`."""

    @property
    def is_of_tallies(self) -> bool:
        """Return whether the counts by day answer it: it filters by days and the counted columns only."""
        return not self.search and (self.agent_id, self.run_id, self.min_prevented_usd) == (None, None, None)

    def condition(self, dialect: str) -> ColumnElement[bool]:
        """The filter as SQL; hidden rows never match."""
        held = [_I.hidden.is_(False), *self._alike(_I), *tables.between(_I.time_ms, self.start_ms, self.end_ms)]
        for column, value in ((_I.agent_id, self.agent_id), (_I.session_id, self.run_id)):
            if value is not None:
                held.append(column == value)
        if self.min_prevented_usd is not None:
            held.append(_I.cost_prevented_usd > self.min_prevented_usd)
        if self.search:
            held.append(_I.n.in_(matching(dialect, tables.interventions, self.search)))
        return and_(*held)

    def days(self) -> "tuple[int | None, int | None, list[InterventionFilter]]":
        """The first and the last whole day that it covers, and the filters of the rest before and after them.

        The filter itself is the only rest if it covers no whole day.
        """
        first = None if self.start_ms is None else -(-self.start_ms // MS_PER_DAY)
        last = None if self.end_ms is None else (self.end_ms + 1) // MS_PER_DAY - 1
        if first is not None and last is not None and first > last:
            return None, None, [self]
        rest: list[InterventionFilter] = []
        if first is not None and self.start_ms != first * MS_PER_DAY:
            rest.append(replace(self, end_ms=first * MS_PER_DAY - 1))
        if last is not None and self.end_ms != (last + 1) * MS_PER_DAY - 1:
            rest.append(replace(self, start_ms=(last + 1) * MS_PER_DAY))
        return first, last, rest

    def of_days(self, first: int | None, last: int | None) -> ColumnElement[bool]:
        """The same filter for the counts of whole days, the first and the last included."""
        return and_(true(), *self._alike(_T), *tables.between(_T.day, first, last))

    def _alike(self, columns: Any) -> list[ColumnElement[bool]]:
        """The conditions on the columns that all interventions of one count share."""
        named = {
            "type": self.type, "outcome": self.outcome, "risk_level": self.risk_level,
            "action_name": self.action_name, "policy_id": self.policy_id,
        }  # fmt: skip
        held = [columns[name] == str(value) for name, value in named.items() if value is not None]
        if self.trips_only:
            held.append(columns.outcome != RecordOutcome.WARNED.value)
        if self.high_risk:
            held += [columns.outcome == RecordOutcome.BLOCKED.value, columns.risk_level.in_(_HIGH)]
        return held


@dataclass(frozen=True, kw_only=True)
class Page:
    """Records as JSON, the newest first."""

    bodies: Sequence[str]
    total: int
    """The total number; for a text search at most `MOST_COUNTED`."""
    more: bool = False
    """There are more than `total`."""


def page(engine: Engine, filters: InterventionFilter, skip: int, limit: int) -> Page:
    """The records from `skip` on. A text search alone looks at its latest matches only, `MOST_COUNTED` of them."""
    with engine.connect() as connection:
        held, more = filters.condition(connection.dialect.name), False
        if filters.search:
            latest = matching(connection.dialect.name, tables.interventions, filters.search, MOST_COUNTED + 1)
            found = connection.execute(latest).scalars().all()
            more, others = len(found) > MOST_COUNTED, replace(filters, search=None)
            held = and_(others.condition(connection.dialect.name), _I.n.in_(found[:MOST_COUNTED]))
            if more and others != InterventionFilter():  # which reach the older matches
                in_words = _I.words.contains(filters.search.lower(), autoescape=True)
                held, more = and_(others.condition(connection.dialect.name), in_words), False
        # Selected first and read afterwards: the bodies of rows that are not shown are most of the table.
        chosen = select(_I.id).where(held).order_by(_I.time_ms.desc(), _I.id).offset(skip).limit(limit)
        ids = connection.execute(chosen).scalars().all()
        if len(ids) < limit and (ids or not skip):
            total = skip + len(ids)  # the last page: no need to count all of them again
        elif filters.search:
            total = connection.execute(select(func.count()).select_from(tables.interventions).where(held)).scalar_one()
        else:
            total = sum(count for *_, count, _usd in _counts(connection, filters, ()))
        bodies: dict[str, str] = dict(connection.execute(select(_I.id, _I.body).where(_I.id.in_(ids))).all())
        return Page(bodies=[bodies[name] for name in ids if name in bodies], total=total, more=more)


def one(engine: Engine, record_id: str) -> str | None:
    """A record as JSON; None: the id is unknown, or the record is hidden."""
    found = Sql(engine).rows("interventions", ("id", "=", record_id), ("hidden", "=", False))
    return str(found[0]["body"]) if found else None


def statistics(engine: Engine, filters: InterventionFilter) -> dict[str, Any]:
    """Counts and sums, in the fields of Agent Sentinel's `/interventions/stats`."""
    with engine.connect() as connection:
        days = _counts(connection, filters, ("day",))
        alike = _counts(connection, filters, tables.TALLIED)
    by_day, by_type, by_outcome, by_action, by_rule = (Counter[Any]() for _ in range(5))
    usd_of_day, usd_of_action = defaultdict[int, float](float), defaultdict[str, float](float)
    high = 0
    for day, count, usd in days:
        by_day[day] += count
        usd_of_day[day] += usd
    for kind, outcome, risk, action, rule, name, _level, count, usd in alike:
        by_type[kind] += count
        by_outcome[outcome] += count
        by_rule[rule, name] += count
        if outcome == RecordOutcome.BLOCKED.value:
            high += count if risk in _HIGH else 0
            if action:
                by_action[action] += count
                usd_of_action[action] += usd
    return {
        "total_interventions": by_day.total(),
        "by_type": {one.value: by_type[one.value] for one in RecordType if one.value in by_type},
        "by_outcome": {one.value: by_outcome[one.value] for one in RecordOutcome if one.value in by_outcome},
        "cost_prevented_usd": round(fsum(usd_of_day.values()), 6),
        "high_risk_blocks": high,
        "time_series": [
            {"date": _date(day), "interventions": count, "cost_prevented_usd": round(usd_of_day[day], 6)}
            for day, count in sorted(by_day.items())
        ],
        "top_blocked_actions": [
            {"action_name": name, "count": count, "cost_prevented_usd": round(usd_of_action[name], 6)}
            for name, count in _top(by_action)
        ],
        "top_triggering_policies": [
            {"policy_id": rule, "policy_name": name, "count": count} for (rule, name), count in _top(by_rule)
        ],
    }


def breakdown(engine: Engine, filters: InterventionFilter) -> dict[str, Any]:
    """Counts by day and level, and by agent and level."""
    by_day, by_agent = defaultdict[int, Counter[str]](Counter), defaultdict[str, Counter[str]](Counter)
    with engine.connect() as connection:
        for found, column in ((by_day, "day"), (by_agent, "agent_id")):
            for name, level, count, _usd in _counts(connection, filters, (column, "level")):
                found[name][level] += count
    most = sorted(by_agent.items(), key=lambda item: (-item[1].total(), item[0]))
    return {
        "by_day": [{"date": _date(day), "levels": dict(levels)} for day, levels in sorted(by_day.items())],
        "by_agent": [
            {"agent_id": name, "count": levels.total(), "levels": dict(levels)} for name, levels in most[:_AGENTS]
        ],
        "agents": len(most),
    }


def _top(counts: Counter[Any]) -> list[tuple[Any, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_TOP]


def _counts(connection: Connection, filters: InterventionFilter, by: Sequence[str]) -> list[Any]:
    """The columns `by`, a count and a sum in US dollars for each group; a group may come in several parts."""
    if not filters.is_of_tallies or "agent_id" in by:
        return _counted(connection, filters, by)
    # Whole days from the stored counts, and the rest of the first and the last day from the rows.
    first, last, rest = filters.days()
    found = [group for part in rest for group in _counted(connection, part, by)]
    if rest == [filters]:
        return found
    columns = [_T[name] for name in by]
    # In PostgreSQL, a sum of long integers is a decimal number.
    sums = (cast(func.coalesce(func.sum(_T["count"]), 0), BigInteger), func.coalesce(func.sum(_T.prevented_usd), 0.0))
    counted = select(*columns, *sums).where(filters.of_days(first, last)).group_by(*columns)
    return [*found, *connection.execute(counted).all()]


def _counted(connection: Connection, filters: InterventionFilter, by: Sequence[str]) -> list[Any]:
    columns = [_I.time_ms // MS_PER_DAY if name == "day" else _I[name] for name in by]
    sums = (func.count(), func.coalesce(func.sum(_I.cost_prevented_usd), 0.0))
    return list(
        connection.execute(
            select(*columns, *sums).where(filters.condition(connection.dialect.name)).group_by(*columns)
        ).all()
    )


def _date(day: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=int(day))).isoformat()
