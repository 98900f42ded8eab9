"""Each step uses a multiple of what the one before used.

Fires: `resource_growth`, once a step and resource (and again when it has become worse), when the amounts of the
    last `min_points` to `window` steps grow by more than `growth` on (geometric) average, by the median, and in
    the newest step; in every step, or in all but one when there are more than `min_points`; by more and more,
    and to at least the resource's floor. Severity by the average: `high`, `critical`. Where there is a limit,
    the finding says in how many steps it is reached, and is at least high when that is within `limit_steps`.
    Resources: tokens, cost_usd, memory_bytes, output_bytes, duration_ms, file_ops, calls. Amounts are
    increments of one step, never totals; memory is the level. The parallel calls of one model turn are one step.
Quiet: a steady amount, however large; linear growth, such as that of every agent's context; a single big step;
    amounts that go up and down; amounts below the floor.
Misses: growth slower than `growth`; growth with more than one pause in a window; sums that are large from the
    start; calls without a result or usage.
"""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

import pydantic
from pydantic import Field, field_validator, model_validator

from haltline.detectors.act import Act, Phase
from haltline.detectors.base import SETTINGS, Detector
from haltline.detectors.strictness import Stricter
from haltline.detectors.window import INDEX, Entry, evidence
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding, Severity

Resource = Literal["tokens", "cost_usd", "memory_bytes", "output_bytes", "duration_ms", "file_ops", "calls"]

FLOORS: dict[Resource, float] = {
    "tokens": 1_000,
    "cost_usd": 0.05,
    "memory_bytes": 64 * 1024 * 1024,
    "output_bytes": 64 * 1024,
    "duration_ms": 30_000,
    "file_ops": 20,
    "calls": 8,
}
"""A step that uses less is no problem, whatever came before it."""

_VALUE = 4
"""Where an entry has the amount. Its index is the step."""
_GROWING, _FALLING = 1.2, 0.8
"""A step counts as growing from the one ratio on, and as falling below the other; between them is noise."""
_FLOOR_TO_LEAST = 8
"""An amount counts as at least this part of the floor."""


@dataclass(slots=True)
class State:
    """The amounts of the last steps by resource; the newest step may still be open."""

    step: int = 0
    by_turn: bool = False
    """The session tells its model turns: each begins a step."""
    resulted: bool = False
    """A result of this step has come: the next attempt begins a new one."""
    points: dict[Resource, list[Entry]] = field(default_factory=dict)
    totals: dict[Resource, float] = field(default_factory=dict)
    limits: dict[Resource, float] = field(default_factory=dict)
    """Limits that the session declared for itself."""
    found: dict[Resource, list[int]] = field(default_factory=dict)
    """By resource: step and severity of the last finding."""


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=SETTINGS)
class ResourceGrowth(Detector[State]):
    """A mean growth of more than `growth` a step over the last steps."""

    id: ClassVar[str] = "resource_growth"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.SESSION_STARTED, Kind.PROPOSED, Kind.COMPLETED, Kind.MODEL_TURN})

    growth: Annotated[float, Field(gt=1, le=1000), Stricter.LOWER] = 1.5
    """Factor a step, on average, from which on it is medium."""
    high: Annotated[float, Field(gt=1, le=1000), Stricter.LOWER] = 2.0
    """Factor from which on it is high."""
    critical: Annotated[float, Field(gt=1, le=1000), Stricter.LOWER] = 3.0
    """Factor from which on it is critical."""
    min_points: Annotated[int, Field(ge=3, le=100), Stricter.LOWER] = 4
    """Steps that are needed before anything is said."""
    window: Annotated[int, Field(ge=3, le=100), Stricter.NEITHER] = 5
    """Steps that are looked at."""
    floors: dict[Resource, Annotated[float, Field(ge=0), Stricter.LOWER]] = Field(
        default_factory=dict, validate_default=True
    )
    """Other floors than the built-in ones."""
    limits: dict[Resource, Annotated[float, Field(gt=0), Stricter.LOWER]] = Field(default_factory=dict)
    """Totals that a session must not exceed; of memory, the level."""
    limit_steps: Annotated[int, Field(ge=0, le=1000), Stricter.HIGHER] = 3
    """Steps. A limit that would be reached within so many makes the finding high."""

    @field_validator("floors")
    @classmethod
    def _all_floors(cls, floors: dict[Resource, float]) -> dict[Resource, float]:
        return FLOORS | floors

    @model_validator(mode="after")
    def _ordered(self) -> "ResourceGrowth":
        if not self.growth <= self.high <= self.critical:
            raise ValueError("growth <= high <= critical")
        if self.min_points > self.window:
            raise ValueError("min_points <= window")
        return self

    def start(self) -> State:
        """No steps yet."""
        return State()

    def concerns(self, act: Act) -> bool:
        """Whatever is part of a step, and the limits at the start."""
        kind = act.event.kind
        if kind is Kind.SESSION_STARTED:
            return act.event.task is not None
        return kind is Kind.MODEL_TURN or act.phase is not Phase.NONE

    def observe(self, state: State, act: Act) -> Finding | None:
        """Adds to the step, and looks at the resources that grew."""
        if act.event.kind is Kind.SESSION_STARTED:
            if act.event.task is not None:
                declared = act.event.task.limits
                state.limits = {name: declared[name] for name in FLOORS if declared.get(name, 0) > 0}
            return None
        _step(state, act)
        worst: Finding | None = None
        for name, amount in _amounts(act):
            points = self._add(state, act, name, amount)
            if len(points) < self.min_points:
                continue
            now, before = points[-1][_VALUE], points[-2][_VALUE]
            if now < self.floors[name] or now <= self.growth * before:  # type: ignore[operator]  # amounts are numbers
                continue
            finding = self._look(state, act, name, points)
            if finding is not None and (worst is None or finding.severity > worst.severity):
                worst = finding
        return worst

    def near(self, state: State) -> float:
        """The growth of the last two steps, as a part of what is a finding; the highest of all resources."""
        near = 0.0
        for name, points in state.points.items():
            if len(points) >= self.min_points and float(points[-1][_VALUE]) >= self.floors[name]:
                mean = _mean_growth(self._values(name, points[-self.min_points :]))
                near = max(near, min(1.0, (mean - 1) / (self.growth - 1)))
        return near

    def _values(self, name: Resource, points: list[Entry]) -> list[float]:
        """The amounts; growth from next to nothing to a little is no growth, so the smallest are raised."""
        least = max(self.floors[name] / _FLOOR_TO_LEAST, 1e-9)
        return [max(float(p[_VALUE]), least) for p in points]

    def _add(self, state: State, act: Act, name: Resource, amount: float) -> list[Entry]:
        points = state.points.get(name)
        if points is None:
            points = state.points[name] = []
        if not points or points[-1][INDEX] != state.step:
            points.append([act.time_ms, state.step, act.event.event_id, act.offset, amount])
            if len(points) > self.window:
                del points[0]
        else:
            before = float(points[-1][_VALUE])
            together = max(before, amount) if name in {"memory_bytes", "duration_ms"} else before + amount
            points[-1] = [act.time_ms, state.step, act.event.event_id, act.offset, together]
        state.totals[name] = amount if name == "memory_bytes" else state.totals.get(name, 0.0) + amount
        return points

    def _look(self, state: State, act: Act, name: Resource, points: list[Entry]) -> Finding | None:
        for length in range(len(points), self.min_points - 1, -1):
            mean = self._sustained(self._values(name, points[-length:]))
            if mean is None:
                continue
            finding = self._found(state, act, name, points[-length:], mean)
            # A step grows while its parallel calls come in: it is told again when it has become worse.
            told = state.found.get(name)
            if told is not None and told[0] == state.step and told[1] >= finding.severity.rank:
                return None
            state.found[name] = [state.step, finding.severity.rank]
            return finding
        return None

    def _sustained(self, values: list[float]) -> float | None:
        """The mean growth when it is sustained, else None."""
        ratios = [after / before for before, after in pairwise(values)]
        mean = _mean_growth(values)
        pauses = sum(ratio < _GROWING for ratio in ratios)
        if mean <= self.growth or ratios[-1] <= self.growth or min(ratios) < _FALLING:
            return None
        if sorted(ratios)[(len(ratios) - 1) // 2] <= self.growth or pauses > (len(values) > self.min_points):
            return None
        return mean if values[-1] - values[-2] > values[1] - values[0] else None

    def _found(self, state: State, act: Act, name: Resource, points: list[Entry], mean: float) -> Finding:
        severity = Severity.MEDIUM
        if mean >= self.high:
            severity = Severity.CRITICAL if mean >= self.critical else Severity.HIGH
        amounts = ", ".join(f"{float(p[_VALUE]):.4g}" for p in points)
        reason = f"{name} grew {mean:.2f} times a step over {len(points)} steps: {amounts}"
        values: dict[str, float | int | str] = {"resource": name, "mean_growth": round(mean, 3), "steps": len(points)}
        thresholds: dict[str, float | int | str] = {
            "growth": self.growth,
            "high": self.high,
            "critical": self.critical,
            "floor": self.floors[name],
        }
        limits = [limits[name] for limits in (self.limits, state.limits) if name in limits]
        if limits:
            limit = min(limits)
            steps = _steps_to(limit, state.totals[name], float(points[-1][_VALUE]), mean, level=name == "memory_bytes")
            values["steps_to_limit"], thresholds["limit"] = steps, limit
            reason += f"; the limit of {limit:.4g} is reached in {steps} steps"
            if steps <= self.limit_steps:
                severity = max(severity, Severity.HIGH)
        return self.finding(
            "resource_growth",
            severity,
            reason,
            evidence(act, points),
            confidence=min(1.0, mean / self.critical),
            values=values,
            thresholds=thresholds,
        )


def _step(state: State, act: Act) -> None:
    """Begins a new step where one model turn ends and the next begins."""
    if act.event.kind is Kind.MODEL_TURN:
        state.by_turn = True
        state.step += 1
        return
    if not state.by_turn and (act.phase is Phase.BOTH or (act.phase is Phase.ATTEMPT and state.resulted)):
        state.step += 1
    state.resulted = act.is_result


def _amounts(act: Act) -> list[tuple[Resource, float]]:
    """What the event says that was used; a usage of zero is not known, an output of zero bytes is."""
    event = act.event
    found: list[tuple[Resource, float]] = [("calls", 1)] if act.is_attempt else []
    usage = event.usage
    if usage is not None:
        tokens = usage.input_tokens + usage.output_tokens + usage.cache_read_tokens
        if tokens:
            found.append(("tokens", tokens))
        if usage.cost_usd:
            found.append(("cost_usd", usage.cost_usd))
        if usage.memory_bytes:
            found.append(("memory_bytes", usage.memory_bytes))
        if usage.file_ops:
            found.append(("file_ops", usage.file_ops))
    if act.is_result:
        if event.output_bytes is not None:
            found.append(("output_bytes", event.output_bytes))
        if event.duration_ms:
            found.append(("duration_ms", event.duration_ms))
    return found


def _mean_growth(values: list[float]) -> float:
    """The geometric mean of the ratios: what one factor would lead from the first to the last."""
    return round(float((values[-1] / values[0]) ** (1 / (len(values) - 1))), 9)


def _steps_to(limit: float, total: float, last: float, mean: float, *, level: bool) -> int:
    """In how many more steps like the last ones the limit is reached; 0: it is reached."""
    if total >= limit:
        return 0
    if level:
        return math.ceil(math.log(limit / last) / math.log(mean))
    # total + last * (mean + mean**2 + ... + mean**n) >= limit
    return max(1, math.ceil(math.log((limit - total) * (mean - 1) / (last * mean) + 1) / math.log(mean)))
