"""Mutes: a rule that only records its findings in one agent's sessions, until a time.

A mute is an override of the policy document with an exemption that sets one rule to shadow. So workers of any release
follow it, decisions name the version that has it, and a replay applies it from its publication on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from glob import escape
from typing import Any, Final

from confluent_kafka import TopicPartition

from haltline.detectors import catalogue
from haltline.detectors.cross_session.base import CrossSessionPattern
from haltline.detectors.cross_session.budgets import SharedBudget
from haltline.detectors.framework.plugins import Plugins
from haltline.detectors.session.budget import Budget
from haltline.detectors.session.spend_velocity import SpendVelocity
from haltline.schemas.decisions import Mode
from haltline.schemas.policy import Exemption, Override, Policy, Rule
from haltline.schemas.record import rfc3339
from haltline.schemas.signals import SignalScope
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.policy.loader import BadPolicy
from haltline.streams.policy.publish import publish
from haltline.streams.policy.source import current, policy_of

_BUDGETS: Final = (Budget, SharedBudget, SpendVelocity)


@dataclass(frozen=True, kw_only=True)
class Mute:
    """A rule that is muted for an agent."""

    rule: str
    agent: str
    by: str
    reason: str
    until: str
    """By the sessions' event time, RFC 3339."""


def mutes_of(policy: Policy, now_ms: int) -> list[Mute]:
    """Return the mutes that are in force."""
    return [
        Mute(rule=rule, agent=_plain(one.agent), by=of.by, reason=of.reason, until=rfc3339(of.expires))
        for one in policy.overrides
        if one.is_mute and (of := one.exemption) is not None and now_ms < of.expires
        for rule in one.rules
    ]


Change = Callable[[Policy], Policy]


def muted(rule: str, agent: str, allowed: Exemption, *, now_ms: int, plugins: Plugins) -> Change:
    """Return what adds a mute to a policy, instead of the one of the same rule and agent.

    It raises BadPolicy if the rule is unknown, a budget, or not about an agent or its sessions, or the end is past.
    """

    def change(policy: Policy) -> Policy:
        if allowed.expires <= now_ms:
            raise BadPolicy(f"until: expected a time after {rfc3339(now_ms)}, got {rfc3339(allowed.expires)}")
        _require_mutable(rule, catalogue(policy, plugins))
        own = Override(agent=escape(agent), rules={rule: Rule(mode=Mode.SHADOW)}, exemption=allowed)
        return policy.model_copy(update={"overrides": (*_without(policy, rule, agent), own)})

    return change


def unmuted(rule: str, agent: str) -> Change:
    """Return what removes a mute from a policy. It raises BadPolicy if there is none."""

    def change(policy: Policy) -> Policy:
        left = _without(policy, rule, agent)
        if len(left) == len(policy.overrides):
            raise BadPolicy(f"policy {policy.name}: expected a mute of {rule} for agent {agent}, got none")
        return policy.model_copy(update={"overrides": left})

    return change


def publish_changed(
    change: Change,
    name: str,
    *,
    bootstrap: str,
    topic: str,
    by: str,
    reason: str,
    time_ms: int,
    plugins: Plugins,
    client: Mapping[str, ClientSetting] | None = None,
) -> tuple[Policy, TopicPartition]:
    """Publish the next version of a policy with a change. Returns it, and its position.

    Raises:
        BadPolicy: the change cannot be made, or the document was changed meanwhile.
        Unreachable, NoSuchTopic: the topic cannot be read or written.

    """
    record = current(bootstrap, topic, client=client).get(name)
    policy = Policy(name=name) if record is None else policy_of(record, name, plugins)
    changed = change(policy).model_copy(update={"version": policy.version + 1})
    return publish(
        changed, bootstrap=bootstrap, topic=topic, by=by, reason=reason, time_ms=time_ms, client=client, keeps=False
    )


def _require_mutable(rule: str, known: Mapping[str, type[Any]]) -> None:
    if rule not in known:
        raise BadPolicy(f"rule: expected one of {', '.join(sorted(known))}, got {rule!r}")
    if issubclass(known[rule], _BUDGETS):
        raise BadPolicy(f"rule: expected one that can be muted, got {rule}: a budget is changed in the policy")
    if issubclass(known[rule], CrossSessionPattern) and known[rule].scope is not SignalScope.AGENT:
        raise BadPolicy(f"rule: expected one about an agent or its sessions, got {rule}, about a {known[rule].scope}")


def _without(policy: Policy, rule: str, agent: str) -> tuple[Override, ...]:
    return tuple(
        one for one in policy.overrides if not (one.is_mute and rule in one.rules and one.agent == escape(agent))
    )


def _plain(glob: str) -> str:
    """Return the agent's id from a glob that matches it only."""
    for sign in "*?[":
        glob = glob.replace(f"[{sign}]", sign)
    return glob
