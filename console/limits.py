"""The limits of a policy on the use of resources, for charts of that use."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from haltline.detectors.cross_session.agent_budget import AgentBudget
from haltline.detectors.cross_session.mission_budget import MissionBudget
from haltline.detectors.framework.base import Pattern
from haltline.detectors.framework.settings import construct
from haltline.detectors.session.budget import Budget
from haltline.detectors.session.spend_velocity import SpendVelocity
from haltline.schemas.policy import Policy
from haltline.streams.engine.effective_rules import EffectiveRules

_SETTING: Final[tuple[type[Pattern[Any]], ...]] = (Budget, AgentBudget, MissionBudget, SpendVelocity)


@dataclass(frozen=True)
class PolicyLimit:
    """A limit on the use of a resource."""

    rule: str
    resource: str
    """`cost_usd`, `tokens`, `calls`, `duration_s` or `file_ops`."""
    limit: float
    per: str
    """The scope of the limit: `session`, `session and minute`, `mission`, `agent and 24 h`."""
    mode: str


def limits_of(policy: Policy, agent_id: str, session_id: str, now_ms: int) -> list[PolicyLimit]:
    """The policy's limits for a session of an agent at this time; limits that the session declares are left out."""
    effective = _effective(policy.model_dump_json(exclude_unset=True))
    rules = effective.under(effective.overrides(agent_id, session_id, now_ms))
    return [
        PolicyLimit(detector.id, resource, limit, per, rules[detector.id].mode.value)
        for detector in _SETTING
        if rules[detector.id].enabled
        for resource, limit, per in _of(construct(detector, rules[detector.id].settings))
    ]


@lru_cache(maxsize=4)
def _effective(document: str) -> EffectiveRules:
    return EffectiveRules(Policy.model_validate_json(document))


def _of(detector: Pattern[Any]) -> Iterator[tuple[str, float, str]]:
    match detector:
        case Budget(limits=limits):
            yield from ((name, limit, "session") for name, limit in limits.items())
        case AgentBudget(limits=limits, period_h=period_h):
            yield from ((name, limit, f"agent and {period_h} h") for name, limit in limits.items())
        case MissionBudget(limits=limits):
            yield from ((name, limit, "mission") for name, limit in limits.items())
        case SpendVelocity(cost_usd_per_min=cost_usd, tokens_per_min=tokens):
            rates = (("cost_usd", cost_usd), ("tokens", tokens))
            yield from ((name, limit, "session and minute") for name, limit in rates if limit is not None)
