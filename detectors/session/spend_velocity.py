"""The session spends faster than its limits allow.

Fires: `spend_velocity` when the spending within the last `window_s` exceeds `cost_usd_per_min` or `tokens_per_min`
    (medium), `high` times that, or `critical` times that. Reported again only if it is more severe, half as fast again,
    or had fallen below the limit. The values name the tool, model and agent that spent the most.
Quiet: a large total that was spent slowly; spending below the limits, which are generous by default.
Misses: spending that is not reported, or long after; many sessions that are each slow enough; tools beyond the first
    sixteen of a window, which are counted together.
"""

import math
from bisect import bisect_left
from functools import cached_property, lru_cache
from typing import Annotated, ClassVar

from msgspec import field
from pydantic import Field

from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import Detector, settings, worst_of
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import Entry
from haltline.schemas.events import Kind
from haltline.schemas.findings import Evidence, Finding, Severity
from haltline.schemas.stored import Stored

_BUCKETS = 6
"""Parts of a window; it advances by one of them."""
_MAX_SOURCES = 16
_OTHER = "other"
_MODEL_NAMES = ("model", "gen_ai.response.model", "gen_ai.request.model")
_COST, _TOKENS = 0, 1
_MAX_NAME_CHARS = 120
_KINDS = ("tool", "model", "agent")
_AGAIN = 1.5
_ROUNDING = 1e-6


class Bucket(Stored):
    """The spending in one part of a window."""

    number: int
    spent: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """US dollars and tokens."""
    sources: dict[str, list[float]] = field(default_factory=dict)
    """The same by source, such as `tool=bash`."""
    largest: Entry = field(default_factory=list)
    """Event id, offset, dollars and tokens of the event that spent the most."""


class SpendVelocityState(Stored):
    """The parts of the window, the earliest first."""

    buckets: list[Bucket] = field(default_factory=list)
    told: dict[str, float] = field(default_factory=dict)
    """By unit: the rate per minute of the last finding."""
    most: list[float] | None = None
    """Upper bound of the window's dollars and tokens: its content when last summed, and all since."""


@settings
class SpendVelocity(Detector[SpendVelocityState]):
    """Spending above a limit of dollars or tokens per minute."""

    id: ClassVar[str] = "spend_velocity"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.COMPLETED, Kind.MODEL_TURN})
    sees: ClassVar[Trait] = Trait.USAGE
    ascending: ClassVar[tuple[tuple[str, ...], ...]] = (("high", "critical"),)

    cost_usd_per_min: Annotated[float, Field(gt=0), Stricter.LOWER] | None = 10.0
    """Dollars per minute; null: no limit."""
    tokens_per_min: Annotated[float, Field(gt=0), Stricter.LOWER] | None = 10_000_000.0
    """Tokens per minute, including those read from a cache: a full context is read again at each call."""
    window_s: Annotated[float, Field(ge=1, le=86_400), Stricter.NEITHER] = 60.0
    """Seconds over which the rate is averaged."""
    high: Annotated[float, Field(ge=1, le=1000), Stricter.LOWER] = 3.0
    """Multiple of a limit that is high: the session is paused, in the default policy."""
    critical: Annotated[float, Field(ge=1, le=1000), Stricter.LOWER] = 10.0
    """Multiple of a limit that is critical: the session is killed, in the default policy."""

    def observe(self, state: SpendVelocityState, act: Observation) -> Finding | None:
        """Add to the window, and compare its spending with the limits."""
        usage = act.usage
        if usage is None:
            return None
        cost, tokens = usage.cost_usd, float(usage.tokens)
        if not (tokens or cost) or not self._add(state, act, cost, tokens):
            return None
        most = state.most
        if most is None or state.told:
            most = state.most = list(_sums(state))
        else:
            most[_COST] += cost
            most[_TOKENS] += tokens
            if not self._is_within(most):  # the bound still includes what has left the window
                most = state.most = list(_sums(state))
        if not state.told and self._is_within(most):
            return None
        return worst_of([self._look(state, act, unit, which, limit) for unit, which, limit in self._limits()])

    def near(self, state: SpendVelocityState) -> float:
        """The rate relative to its limit, for money or tokens, whichever is nearer."""
        rates = (self._rate(state, which) / limit for _, which, limit in self._limits())
        return min(1.0, max(rates, default=0.0))

    def _is_within(self, spent: list[float]) -> bool:
        """Return whether these dollars and tokens are within the limits, by more than the rounding error."""
        cost, tokens = self._most_quiet
        return spent[_COST] <= cost and spent[_TOKENS] <= tokens

    @cached_property
    def _most_quiet(self) -> tuple[float, float]:
        windows = self.window_s / 60 * (1 - _ROUNDING)
        cost, tokens = self.cost_usd_per_min, self.tokens_per_min
        return math.inf if cost is None else cost * windows, math.inf if tokens is None else tokens * windows

    def _limits(self) -> list[tuple[str, int, float]]:
        both = (("cost_usd", _COST, self.cost_usd_per_min), ("tokens", _TOKENS, self.tokens_per_min))
        return [(unit, which, limit) for unit, which, limit in both if limit is not None]

    def _rate(self, state: SpendVelocityState, which: int) -> float:
        return _sums(state)[which] * (60 / self.window_s)

    def _add(self, state: SpendVelocityState, act: Observation, cost: float, tokens: float) -> bool:
        """Add an event; return False if it is older than the window."""
        number = int(act.time_ms // (self.window_s * 1000 / _BUCKETS))
        buckets = state.buckets
        newest = buckets[-1].number if buckets else number - 1
        if number <= newest - _BUCKETS:
            return False
        if number == newest:  # nearly always; the buckets are in order
            bucket = buckets[-1]
        elif number > newest:
            bucket = Bucket(number)
            buckets.append(bucket)
            while buckets[0].number <= number - _BUCKETS:
                del buckets[0]
        else:
            at = bisect_left(buckets, number, key=lambda b: b.number)
            bucket = buckets[at]
            if bucket.number != number:
                bucket = Bucket(number)
                buckets.insert(at, bucket)
        spent = bucket.spent
        spent[_COST] += cost
        spent[_TOKENS] += tokens
        sources = bucket.sources
        for name in _sources(act):
            spent = sources.get(name) or _source(bucket, name)
            spent[_COST] += cost
            spent[_TOKENS] += tokens
        largest = bucket.largest
        if not largest or cost > largest[2] or (cost == largest[2] and tokens > largest[3]):  # type: ignore[operator]  # numbers
            bucket.largest = [act.event.event_id, act.offset, cost, tokens]
        return True

    def _look(self, state: SpendVelocityState, act: Observation, unit: str, which: int, limit: float) -> Finding | None:
        rate = self._rate(state, which)
        if rate <= limit:
            state.told.pop(unit, None)
            return None
        reported_rate, severity = state.told.get(unit, 0.0), self._severity(rate, limit)
        if rate < _AGAIN * reported_rate and severity <= self._severity(reported_rate, limit):
            return None
        state.told[unit] = rate
        values: dict[str, float | int | str] = {f"{unit}_per_min": round(rate, 4)}
        exceeded = []
        for kind in _KINDS:
            name, spent = _most(state, kind, which)
            if name:
                values[f"top_{kind}"], values[f"top_{kind}_{unit}"] = name, round(spent, 4)
                exceeded.append(f"{kind} {name} {spent:.4g}")
        return self.finding(
            "spend_velocity",
            severity,
            f"{rate:.4g} {unit} a minute over the last {self.window_s:g}s"
            + (f"; the most by {', '.join(exceeded)}" if exceeded else ""),
            self._evidence(state, act),
            confidence=min(1.0, rate / (self.high * limit)),
            values=values,
            thresholds={f"{unit}_per_min": limit, **self.thresholds("high", "critical", "window_s")},
        )

    def _severity(self, rate: float, limit: float) -> Severity:
        """The severity of a rate above the limit."""
        if rate >= self.critical * limit:
            return Severity.CRITICAL
        return Severity.HIGH if rate >= self.high * limit else Severity.MEDIUM

    def _evidence(self, state: SpendVelocityState, act: Observation) -> tuple[Evidence, ...]:
        """The event that spent the most in each part of the window, and the current one."""
        found = {str(b.largest[0]): int(b.largest[1]) for b in state.buckets if b.largest}
        found.pop(act.event.event_id, None)
        return (*(act.evidence_of(event_id, offset) for event_id, offset in found.items()), act.evidence)


def _sums(state: SpendVelocityState) -> tuple[float, float]:
    """US dollars and tokens within the window."""
    cost = tokens = 0.0
    for bucket in state.buckets:
        cost += bucket.spent[_COST]
        tokens += bucket.spent[_TOKENS]
    return cost, tokens


def _sources(act: Observation) -> tuple[str, ...]:
    event = act.event
    extra = event.model_extra
    model = next((extra[name] for name in _MODEL_NAMES if isinstance(extra.get(name), str)), "") if extra else ""
    agent = event.agent_id
    return _named(act.action, "" if agent == "unknown" else agent, model[:_MAX_NAME_CHARS])


@lru_cache(maxsize=4096)
def _named(tool: str, agent: str, model: str) -> tuple[str, ...]:
    given = (("tool", tool), ("agent", agent), ("model", model))
    return tuple(f"{kind}={name[:_MAX_NAME_CHARS]}" for kind, name in given if name)


def _source(bucket: Bucket, name: str) -> list[float]:
    """The sums of a source; beyond the maximum number, those of all others of its kind."""
    known = bucket.sources.get(name)
    if known is None:
        if len(bucket.sources) >= _MAX_SOURCES:
            kind = name.partition("=")[0]
            if sum(other.startswith(f"{kind}=") for other in bucket.sources) >= _MAX_SOURCES:
                name = f"{kind}={_OTHER}"
        known = bucket.sources.setdefault(name, [0.0, 0.0])
    return known


def _most(state: SpendVelocityState, kind: str, which: int) -> tuple[str, float]:
    sums: dict[str, float] = {}
    for bucket in state.buckets:
        for name, spent in bucket.sources.items():
            if name.startswith(f"{kind}="):
                sums[name] = sums.get(name, 0.0) + spent[which]
    name = max(sums, key=lambda source: (sums[source], source), default="")
    return name.partition("=")[2], sums.get(name, 0.0)
