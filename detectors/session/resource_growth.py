"""Each step uses a multiple of the resources of the one before.

Fires: `resource_growth`, once per step and resource (and again if its severity rises), when the amounts of the last
    `min_points` to `window` steps grow by more than the factor `growth`: on (geometric) average, by the median, and in
    the newest step. They must grow in every step, or in all but one if there are more than `min_points`, by increasing
    amounts, and to at least the resource's floor. The severity follows from the average or the median, whichever is
    less: `high`, `critical`. Also critical when slower growth accumulates to as much as `critical` does in `min_points`
    steps. If there is a limit, the finding gives the number of steps in which it is reached, and is at least high
    within `limit_steps`.
    Resources: tokens, cost_usd, memory_bytes, output_bytes, duration_ms, file_ops, calls. Amounts are increments of one
    step, never totals; memory is the level. The parallel calls of one model turn are one step.
Quiet: a steady amount, however large; linear growth, such as that of every agent's context; a single big step, also if
    all later ones are as big; amounts that rise and fall; amounts below the floor.
Misses: growth slower than `growth`; growth with more than one pause in a window; totals that are large from the start;
    calls without a result or usage.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import field
from pydantic import Field, field_validator

from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import Detector, settings, worst_of
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import EVENT_ID, INDEX, OFFSET, TIME_MS, evidence
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.stored import Stored

# Module constants, as they are read at every event: looking up enum members is ten times as slow.
_SESSION_STARTED, _MODEL_TURN = Kind.SESSION_STARTED, Kind.MODEL_TURN

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
"""A step that uses less is never reported, whatever came before it."""

RESOURCES: tuple[Resource, ...] = tuple(FLOORS)
_FIRST = 4
"""Position of the first resource's amount in a row, after the fields of an entry, whose index is the step."""
_CALLS, _TOKENS, _COST, _MEMORY, _OUTPUT, _DURATION, _FILES = (
    _FIRST + RESOURCES.index(name)
    for name in ("calls", "tokens", "cost_usd", "memory_bytes", "output_bytes", "duration_ms", "file_ops")
)
_LARGEST_OF_STEP = frozenset((_MEMORY, _DURATION))
"""Of parallel calls, the largest amount counts, not the sum."""
_A_CALL = ((_CALLS, 1),)
_MAX = 2**53
"""Upper bound of one step's amount, so that sums stay within the range of JSON readers."""
_NOTHING = (None,) * len(RESOURCES)
_MORE_STEPS = 3
"""Steps stored in addition to `window`: not every step reports every resource, and slow growth takes long."""
_GROWING, _FALLING = 1.2, 0.8
"""A step grows from the first ratio on, and falls below the second; ratios between them are noise."""
_FLOOR_TO_LEAST = 8
"""An amount counts as at least this part of the floor: the floor divided by it."""


Row: TypeAlias = list[Any]
"""`[time_ms, step, event_id, offset, *amounts]` of one step, by its last event; None: no amount reported."""


class ResourceGrowthState(Stored):
    """The amounts of the last steps; the newest step may be incomplete."""

    step: int = 0
    by_turn: bool = False
    """Whether the session publishes its model turns: each starts a step."""
    resulted: bool = False
    """Whether this step has a result: the next attempt starts a new step."""
    rows: list[Row] = field(default_factory=list)
    totals: list[float] = field(default_factory=lambda: [0.0] * len(RESOURCES))
    """In the order of `RESOURCES`; for memory the level."""
    limits: dict[Resource, float] = field(default_factory=dict)
    """Limits that the session declared."""
    found: dict[Resource, list[int]] = field(default_factory=dict)
    """By resource: step and severity of the last finding."""


Point: TypeAlias = tuple[Row, float]
"""The row of a step, and its amount of one resource."""


@settings
class ResourceGrowth(Detector[ResourceGrowthState]):
    """A mean growth of more than `growth` per step over the last steps."""

    id: ClassVar[str] = "resource_growth"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.SESSION_STARTED, Kind.PROPOSED, Kind.COMPLETED, Kind.MODEL_TURN})
    sees: ClassVar[Trait] = Trait.ATTEMPT | Trait.RESULT | Trait.TURN | Trait.TASK
    ascending: ClassVar[tuple[tuple[str, ...], ...]] = (("growth", "high", "critical"), ("min_points", "window"))

    growth: Annotated[float, Field(gt=1, le=1000), Stricter.LOWER] = 1.5
    """Threshold of a medium finding: mean factor per step."""
    high: Annotated[float, Field(gt=1, le=1000), Stricter.LOWER] = 2.0
    """Threshold of a high finding: factor."""
    critical: Annotated[float, Field(gt=1, le=1000), Stricter.LOWER] = 3.0
    """Threshold of a critical finding: factor."""
    min_points: Annotated[int, Field(ge=3, le=100), Stricter.LOWER] = 4
    """Steps required before there can be a finding."""
    window: Annotated[int, Field(ge=3, le=100), Stricter.NEITHER] = 5
    """The last steps that are compared."""
    floors: dict[Resource, Annotated[float, Field(ge=0), Stricter.LOWER]] = Field(
        default_factory=dict, validate_default=True
    )
    """Floors by resource that replace the built-in ones."""
    limits: dict[Resource, Annotated[float, Field(gt=0), Stricter.LOWER]] = Field(default_factory=dict)
    """Limits of a session's totals; for memory, of the level."""
    limit_steps: Annotated[int, Field(ge=0, le=1000), Stricter.HIGHER] = 3
    """Steps. The finding is at least high if a limit would be reached within this many."""

    @field_validator("floors")
    @classmethod
    def _all_floors(cls, floors: dict[Resource, float]) -> dict[Resource, float]:
        return FLOORS | floors

    def observe(self, state: ResourceGrowthState, act: Observation) -> Finding | None:
        """Add to the step, and check the resources that grew."""
        if act.kind is _SESSION_STARTED:
            if act.event.task is not None:
                declared = act.event.task.limits
                state.limits = {name: declared[name] for name in FLOORS if declared.get(name, 0) > 0}
            return None
        _step(state, act)
        rows = state.rows
        row = rows[-1] if rows and rows[-1][INDEX] == state.step else self._next_row(state)
        row[TIME_MS], row[EVENT_ID], row[OFFSET] = act.time_ms, act.event.event_id, act.offset
        totals, floors = state.totals, self._floor_at
        found = []
        for at, amount in _amounts(act):
            now, before = amount, row[at]
            if before is not None:
                now = max(before, amount) if at in _LARGEST_OF_STEP else min(before + amount, _MAX)
            row[at] = now
            totals[at - _FIRST] = amount if at == _MEMORY else totals[at - _FIRST] + amount
            if now < floors[at] or (len(rows) > 1 and (last := rows[-2][at]) is not None and now <= self.growth * last):
                continue  # nearly always: the full check runs only if it can matter
            found.append(self._look(state, act, at))
        return worst_of(found) if found else None

    def near(self, state: ResourceGrowthState) -> float:
        """The mean growth over the last steps, as a share of `growth`; the highest of all resources."""
        near = 0.0
        for at, floor in self._floor_at.items():
            points = self._points(state, at, self.window)
            if len(points) >= self.min_points and points[-1][1] >= floor:
                mean = _mean_growth(self._values(at, points[-self.min_points :]))
                near = max(near, min(1.0, (mean - 1) / (self.growth - 1)))
        return near

    @cached_property
    def _floor_at(self) -> dict[int, float]:
        """The floors by position in a row."""
        return {at: self.floors[name] for at, name in enumerate(RESOURCES, _FIRST)}

    def _next_row(self, state: ResourceGrowthState) -> Row:
        row: Row = [0, state.step, "", 0, *_NOTHING]
        rows = state.rows
        rows.append(row)
        if len(rows) > self.window + _MORE_STEPS:
            del rows[: -(self.window + _MORE_STEPS)]
        return row

    def _points(self, state: ResourceGrowthState, at: int, most: int) -> list[Point]:
        """The last `most` steps that report a resource, with its amounts, starting after the last fall."""
        least = self._least(at)
        points: list[Point] = []
        after = 0.0
        for row in reversed(state.rows):
            amount = row[at]
            if amount is None:
                continue
            before = max(amount, least)
            if len(points) == most or after < _FALLING * before * bool(points):
                break
            points.append((row, amount))
            after = before
        points.reverse()
        return points

    def _least(self, at: int) -> float:
        return max(self._floor_at[at] / _FLOOR_TO_LEAST, 1e-9)

    def _values(self, at: int, points: list[Point]) -> list[float]:
        """The amounts, raised to a minimum: growth from almost zero to a little is not counted."""
        least = self._least(at)
        return [max(amount, least) for _, amount in points]

    def _look(self, state: ResourceGrowthState, act: Observation, at: int) -> Finding | None:
        run = self._points(state, at, len(state.rows))
        if len(run) < self.min_points:
            return None
        name = RESOURCES[at - _FIRST]
        far = self._is_far(self._values(at, run))
        for length in range(min(len(run), self.window), self.min_points - 1, -1):
            values = self._values(at, run[-length:])
            mean = self._sustained(values)
            if mean is None:
                continue
            if far:
                finding = self._found(state, act, name, run, _mean_growth(self._values(at, run)), typical=self.critical)
            else:
                finding = self._found(
                    state, act, name, run[-length:], mean, typical=min(mean, _median(_ratios(values)))
                )
            # A step grows while its parallel calls arrive: it is reported again if it becomes more severe.
            reported = state.found.get(name)
            if reported is not None and reported[0] == state.step and reported[1] >= finding.severity.rank:
                return None
            state.found[name] = [state.step, finding.severity.rank]
            return finding
        return None

    def _sustained(self, values: list[float]) -> float | None:
        """The mean growth if it is sustained, else None."""
        ratios = _ratios(values)
        mean = _mean_growth(values)
        pauses = sum(ratio < _GROWING for ratio in ratios)
        if mean <= self.growth or ratios[-1] <= self.growth or min(ratios) < _FALLING:
            return None
        if _median(ratios) <= self.growth or pauses > (len(values) > self.min_points):
            return None
        return mean if values[-1] - values[-2] > values[1] - values[0] else None

    def _is_far(self, values: list[float]) -> bool:
        """Return whether slow growth adds up to critical growth in the fewest steps; false for one big step."""
        ratios = _ratios(values)
        typical = _median(ratios)
        pauses = sum(ratio < _GROWING for ratio in ratios)
        return (
            len(values) > self.min_points
            and pauses <= 1
            and typical > self.growth
            and len(ratios) * math.log(typical) >= (self.min_points - 1) * math.log(self.critical)
        )

    def _found(
        self,
        state: ResourceGrowthState,
        act: Observation,
        name: Resource,
        points: list[Point],
        mean: float,
        *,
        typical: float,
    ) -> Finding:
        severity = Severity.MEDIUM
        if typical >= self.high:
            severity = Severity.CRITICAL if typical >= self.critical else Severity.HIGH
        amounts = ", ".join(f"{amount:.4g}" for _, amount in points)
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
            steps = _steps_to(
                limit, state.totals[RESOURCES.index(name)], points[-1][1], mean, level=name == "memory_bytes"
            )
            values["steps_to_limit"], thresholds["limit"] = steps, limit
            reason += f"; the limit of {limit:.4g} is reached in {steps} steps"
            if steps <= self.limit_steps:
                severity = max(severity, Severity.HIGH)
        return self.finding(
            "resource_growth",
            severity,
            reason,
            evidence(act, [row[:_FIRST] for row, _ in points]),
            confidence=min(1.0, mean / self.critical),
            values=values,
            thresholds=thresholds,
        )


def _step(state: ResourceGrowthState, act: Observation) -> None:
    """Start a new step where one model turn ends and the next begins."""
    if state.by_turn or act.kind is _MODEL_TURN:
        state.step += act.kind is _MODEL_TURN
        state.by_turn = True
    elif act.is_attempt and (act.is_result or state.resulted):
        state.step += 1
    state.resulted = act.is_result


def _amounts(act: Observation) -> Sequence[tuple[int, float]]:
    """The reported amounts by position in a row. Zero usage means unknown; zero output is a value."""
    usage, event = act.usage, act.event
    if usage is None and not act.is_result:
        return _A_CALL if act.is_attempt else ()
    found: list[tuple[int, float]] = list(_A_CALL) if act.is_attempt else []
    if usage is not None:
        tokens = usage.input_tokens + usage.output_tokens + usage.cache_read_tokens
        if tokens:
            found.append((_TOKENS, tokens))
        cost, memory, files = usage.cost_usd, usage.memory_bytes, usage.file_ops
        if cost:
            found.append((_COST, cost))
        if memory:
            found.append((_MEMORY, memory))
        if files:
            found.append((_FILES, files))
    if act.is_result:
        size, took_ms = event.output_bytes, event.duration_ms
        if size is not None:
            found.append((_OUTPUT, size))
        if took_ms:
            found.append((_DURATION, took_ms))
    return found


def _ratios(values: list[float]) -> list[float]:
    return [after / before for before, after in pairwise(values)]


def _median(ratios: list[float]) -> float:
    """The median; for an even number, the lower middle one."""
    return round(sorted(ratios)[(len(ratios) - 1) // 2], 9)


def _mean_growth(values: list[float]) -> float:
    """The geometric mean of the ratios: the factor per step that leads from the first to the last."""
    return round(float((values[-1] / values[0]) ** (1 / (len(values) - 1))), 9)


def _steps_to(limit: float, total: float, last: float, mean: float, *, level: bool) -> int:
    """The number of further steps with the same growth in which the limit is reached; 0: already reached."""
    if total >= limit:
        return 0
    if level:
        return math.ceil(math.log(limit / last) / math.log(mean))
    # total + last * (mean + mean**2 + ... + mean**n) >= limit
    return max(1, math.ceil(math.log((limit - total) * (mean - 1) / (last * mean) + 1) / math.log(mean)))
