"""A session differs from the agent's other sessions: faster, other tools, or a capability that they did not use.

Sessions publish profiles, each of a fixed number of their last actions. A profile is compared with the agent's earlier
profiles, and then learned.

Fires: once the agent has `min_profiles` of `min_sessions` sessions; medium, high with two of these, critical with
    three.
    `agent_rate_drift`: steps follow each other faster, by at least `rate_deviations` standard deviations of the
    logarithm of their rate; `agent_mix_drift`: the distance between the profile's mix of tools and the agent's is at
    least `mix_bits` (Jensen-Shannon divergence, 0 to 1 bit); `agent_capability_drift`: at least `new_capability_share`
    of the actions have an effect (network, mutate, destructive) that no earlier profile had.
Quiet: agents with few sessions; an agent whose sessions differ much from each other; gradual changes; slower work.
Misses: what the agent did from its first session on; another use of the same tools; sessions that end before their
    first profile is full. An agent that gets different work looks the same: so its mode is shadow by default.
"""

from dataclasses import dataclass, field
from math import log, log2, sqrt
from typing import Annotated, ClassVar

from pydantic import Field

from haltline.detectors.cross_session.base import CrossSessionPattern, evidence, remembered
from haltline.detectors.framework.base import settings
from haltline.detectors.framework.strictness import Stricter
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.record import Values
from haltline.schemas.signals import Signal, SignalKind, SignalScope

ACTIONS, STEP_S, TOOL, EFFECT = "actions", "step_s", "tool:", "effect:"
"""Keys of a profile: the number of actions, the mean seconds per step, and the numbers of actions by tool and by
effect."""

_MEMORY = 64
"""Profiles. Older ones have less and less weight."""
_MAX_TOOLS = 64
_MAX_SESSIONS = 16
_LEAST_SPREAD = 0.5
"""Lower bound of the standard deviation of the logarithm of the rate: half as fast again is no drift."""
_LEAST_SHARE = 0.0005
_SEVERITIES = (Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL)


@dataclass
class State:
    """The agent's baseline."""

    profiles: int = 0
    sessions: list[str] = field(default_factory=list)
    """The first few different ones, to count them."""
    mean: float = 0.0
    variance: float = 0.0
    """The logarithm of steps per second."""
    mix: dict[str, float] = field(default_factory=dict)
    """By tool: its share of the actions."""
    effects: list[str] = field(default_factory=list)
    """Effects of all actions so far."""


@settings
class AgentBaseline(CrossSessionPattern[State]):
    """A profile that deviates from the agent's earlier ones."""

    id: ClassVar[str] = "agent_baseline"
    optional: ClassVar[bool] = True
    scope: ClassVar[SignalScope] = SignalScope.AGENT
    hears: ClassVar[frozenset[SignalKind]] = frozenset({SignalKind.PROFILE})

    min_profiles: Annotated[int, Field(ge=2, le=10_000), Stricter.LOWER] = 12
    """Earlier profiles of the agent required for a comparison."""
    min_sessions: Annotated[int, Field(ge=1, le=_MAX_SESSIONS), Stricter.LOWER] = 4
    """Different sessions required among them."""
    rate_deviations: Annotated[float, Field(gt=0, le=1000), Stricter.LOWER] = 4.0
    """Standard deviations of the logarithm of the rate."""
    mix_bits: Annotated[float, Field(gt=0, le=1), Stricter.LOWER] = 0.6
    """Distance of two mixes of tools, from 0 (equal) to 1 (nothing in common)."""
    new_capability_share: Annotated[float, Field(gt=0, le=1), Stricter.LOWER] = 0.2
    """Share of a profile's actions."""

    def observe(self, state: State, signal: Signal) -> Finding | None:
        """Compare a profile with those before it, and learn it."""
        amounts, actions = signal.amounts or {}, signal.amount(ACTIONS)
        if actions <= 0:
            return None
        tools = {name: count / actions for name, count in amounts.items() if name.startswith(TOOL)}
        effects = {name: count / actions for name, count in amounts.items() if name.startswith(EFFECT)}
        step_s = signal.amount(STEP_S, 0.0)
        rate = -log(step_s) if step_s > 0 else state.mean
        known = state.profiles >= self.min_profiles and len(state.sessions) >= self.min_sessions
        found = self._deviations(state, rate, tools, effects) if known else {}
        finding = self._finding(state, signal, found, step_s) if found else None
        _learn(state, signal.session_id, rate, tools, effects)
        return finding

    def _deviations(self, state: State, rate: float, tools: dict[str, float], effects: dict[str, float]) -> Values:
        found: Values = {}
        off = (rate - state.mean) / max(_LEAST_SPREAD, sqrt(state.variance))
        bits = _divergence(tools, state.mix)
        new = {name: share for name, share in effects.items() if name not in state.effects}
        if off >= self.rate_deviations:
            found["agent_rate_drift"] = round(off, 3)
        if bits >= self.mix_bits:
            found["agent_mix_drift"] = round(bits, 3)
        if sum(new.values()) >= self.new_capability_share:
            found["agent_capability_drift"] = ", ".join(name.removeprefix(EFFECT) for name in sorted(new))
        return found

    def _finding(self, state: State, signal: Signal, found: Values, step_s: float) -> Finding:
        words = {
            "agent_rate_drift": f"faster than its earlier sessions: a step took {step_s:.3g}s",
            "agent_mix_drift": "other tools than its earlier sessions used",
            "agent_capability_drift": "kinds of actions that its earlier sessions did not take",
        }
        return self.finding(
            next(reversed(found)),
            _SEVERITIES[len(found) - 1],
            f"session {signal.session_id} of agent {signal.id}: " + "; ".join(words[code] for code in found),
            evidence([], remembered(signal)),
            confidence=len(found) / len(_SEVERITIES),
            values={**found, "profiles": state.profiles, "sessions": len(state.sessions)},
            thresholds=self.thresholds(
                "min_profiles", "min_sessions", "rate_deviations", "mix_bits", "new_capability_share"
            ),
        )


def _learn(state: State, session: str, rate: float, tools: dict[str, float], effects: dict[str, float]) -> None:
    state.profiles += 1
    weight = 1 / min(state.profiles, _MEMORY)
    by = rate - state.mean
    state.mean += weight * by
    state.variance = (1 - weight) * (state.variance + weight * by * by)
    mix = {name: share * (1 - weight) for name, share in state.mix.items()}
    for name, share in tools.items():
        mix[name] = mix.get(name, 0.0) + weight * share
    kept = sorted((name for name, share in mix.items() if share >= _LEAST_SHARE), key=lambda n: -mix[n])[:_MAX_TOOLS]
    state.mix = {name: mix[name] for name in kept}
    state.effects += [name for name in sorted(effects) if name not in state.effects]
    if session not in state.sessions and len(state.sessions) < _MAX_SESSIONS:
        state.sessions.append(session)


def _divergence(one: dict[str, float], other: dict[str, float]) -> float:
    """Jensen-Shannon divergence of two mixes, in bits: 0 if equal, 1 if they have nothing in common."""
    bits = 0.0
    for name in sorted({*one, *other}):
        p, q = one.get(name, 0.0), other.get(name, 0.0)
        middle = (p + q) / 2
        bits += sum(0.5 * share * log2(share / middle) for share in (p, q) if share > 0)
    return max(0.0, bits)
