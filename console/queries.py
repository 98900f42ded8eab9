"""What is asked of the read model about interventions: pages, one of them, and statistics."""

from dataclasses import dataclass, fields
from datetime import date, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Engine, and_, func, select

from haltline.console import model
from haltline.schemas.records import RecordOutcome, RecordType, RiskLevel

_TOP: Final = 10
_MS_PER_DAY: Final = 86_400_000
_HIGH: Final = (RiskLevel.HIGH.value, RiskLevel.CRITICAL.value)
_I: Final = model.interventions.c


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which interventions; None: any."""

    type: RecordType | None = None
    outcome: RecordOutcome | None = None
    risk_level: RiskLevel | None = None
    action_name: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    policy_id: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    """Inclusive, as a date range is read."""
    search: str | None = None
    """A part of the action, the reason or an id, in either case."""
    min_prevented_usd: float | None = None
    trips_only: bool = False
    """Only what did more than warn."""
    high_risk: bool = False
    """Only what was blocked and is of high or critical risk, as `high_risk_blocks` counts it."""

    def condition(self) -> ColumnElement[bool]:
        """As SQL; what is hidden is never wanted."""
        held: list[ColumnElement[bool]] = [_I.hidden.is_(False)]
        for field in fields(self)[:7]:
            value = getattr(self, field.name)
            if value is not None:
                column = _I.session_id if field.name == "run_id" else _I[field.name]
                held.append(
                    column == (value.value if isinstance(value, RecordType | RecordOutcome | RiskLevel) else value)
                )
        if self.start_ms is not None:
            held.append(_I.time_ms >= self.start_ms)
        if self.end_ms is not None:
            held.append(_I.time_ms <= self.end_ms)
        if self.min_prevented_usd is not None:
            held.append(_I.cost_prevented_usd > self.min_prevented_usd)
        if self.trips_only:
            held.append(_I.outcome != RecordOutcome.WARNED.value)
        if self.high_risk:
            held += [_I.outcome == RecordOutcome.BLOCKED.value, _I.risk_level.in_(_HIGH)]
        if self.search:
            held.append(func.lower(_I.body).contains(self.search.lower(), autoescape=True))
        return and_(*held)


def page(engine: Engine, wanted: Wanted, skip: int, limit: int) -> tuple[list[str], int]:
    """The records from `skip` on, the newest first, as JSON; and how many there are in all."""
    held = wanted.condition()
    with engine.connect() as connection:
        total = connection.execute(select(func.count()).select_from(model.interventions).where(held)).scalar_one()
        order = (_I.time_ms.desc(), _I.id)
        bodies = connection.execute(select(_I.body).where(held).order_by(*order).offset(skip).limit(limit)).scalars()
        return list(bodies), total


def one(engine: Engine, record_id: str) -> str | None:
    """A record as JSON; None: there is none of this id, or it is hidden."""
    with engine.connect() as connection:
        return connection.execute(select(_I.body).where(_I.id == record_id, _I.hidden.is_(False))).scalar()


def statistics(engine: Engine, wanted: Wanted) -> dict[str, Any]:
    """Counts and sums, in the fields of Agent Sentinel's `/interventions/stats`."""
    held = wanted.condition()
    blocked = and_(held, _I.outcome == RecordOutcome.BLOCKED.value)
    count, prevented = func.count(), func.coalesce(func.sum(_I.cost_prevented_usd), 0.0)
    day = _I.time_ms // _MS_PER_DAY
    with engine.connect() as connection:
        total, saved = connection.execute(select(count, prevented).where(held)).one()
        types: dict[str, int] = dict(connection.execute(select(_I.type, count).where(held).group_by(_I.type)).all())
        outcomes: dict[str, int] = dict(
            connection.execute(select(_I.outcome, count).where(held).group_by(_I.outcome)).all()
        )
        high = connection.execute(select(count).where(blocked, _I.risk_level.in_(_HIGH))).scalar_one()
        days = connection.execute(select(day, count, prevented).where(held).group_by(day).order_by(day)).all()
        actions = connection.execute(
            select(_I.action_name, count, prevented)
            .where(blocked, _I.action_name != "")
            .group_by(_I.action_name)
            .order_by(count.desc(), _I.action_name)
            .limit(_TOP)
        ).all()
        policies = connection.execute(
            select(_I.policy_id, _I.policy_name, count)
            .where(held)
            .group_by(_I.policy_id, _I.policy_name)
            .order_by(count.desc(), _I.policy_id)
            .limit(_TOP)
        ).all()
    return {
        "total_interventions": total,
        "by_type": {one.value: types[one.value] for one in RecordType if one.value in types},
        "by_outcome": {one.value: outcomes[one.value] for one in RecordOutcome if one.value in outcomes},
        "cost_prevented_usd": round(saved, 6),
        "high_risk_blocks": high,
        "time_series": [
            {"date": _date(number), "interventions": of, "cost_prevented_usd": round(usd, 6)}
            for number, of, usd in days
        ],
        "top_blocked_actions": [
            {"action_name": name, "count": of, "cost_prevented_usd": round(usd, 6)} for name, of, usd in actions
        ],
        "top_triggering_policies": [
            {"policy_id": rule, "policy_name": name, "count": of} for rule, name, of in policies
        ],
    }


def _date(day: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=int(day))).isoformat()
