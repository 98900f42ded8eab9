"""The statistics of intervention records, counted in a list: what the console's queries must agree with."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from haltline.interventions.vocabularies.agent_sentinel import prevented_usd
from haltline.schemas.intervention_records import InterventionRecord, RecordOutcome, RecordType, RiskLevel

_TOP = 10


def statistics(records: Iterable[InterventionRecord]) -> dict[str, Any]:
    """Return counts and sums over records, in the fields of Agent Sentinel's `/interventions/stats`."""
    all_of = list(records)
    blocked = [r for r in all_of if r.outcome is RecordOutcome.BLOCKED]
    by_day: dict[str, list[InterventionRecord]] = {}
    for record in all_of:
        day = datetime.fromtimestamp(record.timestamp / 1000, UTC).date().isoformat()
        by_day.setdefault(day, []).append(record)
    actions = Counter(record.action_name for record in blocked if record.action_name)
    policies = Counter((record.policy_id, record.policy_name) for record in all_of)
    return {
        "total_interventions": len(all_of),
        "by_type": _counted(RecordType, (record.type for record in all_of)),
        "by_outcome": _counted(RecordOutcome, (record.outcome for record in all_of)),
        "cost_prevented_usd": prevented_usd(all_of),
        "high_risk_blocks": sum(record.risk_level in (RiskLevel.HIGH, RiskLevel.CRITICAL) for record in blocked),
        "time_series": [
            {"date": day, "interventions": len(of), "cost_prevented_usd": prevented_usd(of)}
            for day, of in sorted(by_day.items())
        ],
        "top_blocked_actions": [
            {
                "action_name": name,
                "count": count,
                "cost_prevented_usd": prevented_usd(r for r in blocked if r.action_name == name),
            }
            for name, count in actions.most_common(_TOP)
        ],
        "top_triggering_policies": [
            {"policy_id": rule, "policy_name": name, "count": count}
            for (rule, name), count in policies.most_common(_TOP)
        ],
    }


def _counted(names: type[RecordType] | type[RecordOutcome], values: Iterable[str]) -> dict[str, int]:
    counts = Counter(values)
    return {name.value: counts[name] for name in names if counts[name]}
