"""The session's behaviour changes: it is faster, uses other tools, or has a capability that it did not use before.

Fires: each of the following once until it has ended, after a baseline of `baseline` actions. Medium; high while two of
    them last, critical while all three do. The first two are one-sided CUSUMs in standard deviations (z-scores) of the
    session's own past: values above `slack` add to the sum, values below subtract from it.
    `action_rate_drift`: steps follow each other faster. The value is the logarithm of the time between steps; the
    threshold is `rate_threshold`. Calls within `together_s` are one step: those of one model turn.
    `tool_mix_drift`: tools, or programs of command lines, that are rare in the session's mix. The value is their
    surprise in bits, whose mean is the entropy of the mix; the threshold is `mix_threshold`.
    `capability_drift`: `new_capability_actions` in a row, or more with others between them, that destroy others'
    things, change what others rely on, or use the network, while the baseline never did.
Quiet: sessions shorter than the baseline; slow agents, since all values are relative; a clock that advances in even
    steps; the phases of a task (explore, edit, test), since up to three new tools are learned as fast as they appear;
    one large batch of parallel calls; slower work; polls; a declared batch; scratch files and what the session
    created.
Misses: a session that runs away from its first action on, or so slowly that the baseline adapts; more than one step
    within `together_s`; another use of the same tools; a program behind another one (`sh -c`, `xargs`) or after the
    first of a command line; differences from the agent's other sessions, whose baseline is not stored. A long session
    that takes up new work looks like one that was taken over, and few recorded sessions are long: it finds one of 853,
    which failed. So it decides nothing by default: its mode is shadow.
"""

import re
from math import exp, log, log2, sqrt
from typing import Annotated, ClassVar, NamedTuple

from msgspec import field
from pydantic import Field

from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import Detector, settings
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import Entry, entry, evidence, seconds
from haltline.schemas.events import Effect
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.policy import Reading
from haltline.schemas.record import Values
from haltline.schemas.stored import Stored

_RATE, _MIX, _CAPABILITY = "action_rate_drift", "tool_mix_drift", "capability_drift"
_INDEX, _USUAL = 1, 4
"""Positions in a deviation's first entry: the number of the action, and the session's mean before it."""
_SEVERITIES = (Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL)
_MAX_TOOLS = 16
_MAX_NAMES = 4
"""Maximum number of tools named per deviation."""
_MAX_NAME_CHARS = 20
_PRIOR = 0.2
"""Uses that every tool is assumed to have had before its first."""
_NEW = 4.0
"""How many other actions compensate for one action with a new capability."""
_NETWORK_PROGRAMS = frozenset(
    ("curl", "wget", "ssh", "scp", "sftp", "rsync", "ftp", "nc", "ncat", "netcat", "telnet", "socat")
)
_READ_CHARS = 256
_NETWORK, _MUTATE, _POLL, _PLAIN = Effect.NETWORK, Effect.MUTATE, Effect.POLL, Reading.PLAIN
_PROGRAM = re.compile(
    r"\s*(?:(?:cd|pushd|source|export|set)\s[^\n;&|]*(?:&&|[\n;|])\s*"
    r"|(?:sudo|env|time|nohup|exec|timeout\s+\S+|\w+=\S*)\s+)*(?P<path>[^\s;&|<>()'\"`]+)"
)


class _Measure(NamedTuple):
    """How a value is compared with its baseline."""

    code: str
    min_spread: float
    """Lower bound of the standard deviation, for values that hardly vary."""
    most: float
    """Upper bound of one value's deviation, in standard deviations."""
    memories: int
    """The length of its memory, as a multiple of that of the mix of tools."""


# Steps twice as fast are about one deviation; a pause is no change; noisier values have a longer memory.
_STEPS = _Measure(_RATE, min_spread=0.7, most=3.0, memories=2)
_TOOLS = _Measure(_MIX, min_spread=1.0, most=6.0, memories=1)


class Baseline(Stored):
    """Exponentially weighted mean and variance of a measured value."""

    count: int = 0
    mean: float = 0.0
    variance: float = 0.0

    def learn(self, value: float, memory: int) -> None:
        """Update with a value; about the last `memory` values count."""
        self.count = count = self.count + 1
        weight = 1 / (count if count < memory else memory)
        by = value - self.mean
        self.mean += weight * by
        self.variance = (1 - weight) * (self.variance + weight * by * by)


class Deviation(Stored):
    """A current deviation of the session from its baseline."""

    sum: float
    since: Entry
    names: list[str] = field(default_factory=list)
    """Tools or capabilities, the first few."""
    told: bool = False


class State(Stored):
    """The baselines, and the current deviations from them."""

    step_ms: int | None = None
    """Event time of the last step's first call."""
    steps: Baseline = field(default_factory=Baseline)
    """The rate: logarithm of steps per millisecond."""
    tools: Baseline = field(default_factory=Baseline)
    """The surprise of a tool, in bits. Counts every action."""
    mix: dict[str, int] = field(default_factory=dict)
    """By tool: its recent uses."""
    total: int = 0
    """Sum of the mix."""
    known: list[str] = field(default_factory=list)
    """Capabilities of the baseline."""
    deviations: dict[str, Deviation] = field(default_factory=dict)


@settings
class BehavioralDrift(Detector[State]):
    """A deviation from the session's own rate, mix of tools or capabilities whose sum reaches its threshold."""

    id: ClassVar[str] = "behavioral_drift"
    optional: ClassVar[bool] = True
    sees: ClassVar[Trait] = Trait.BEGUN

    baseline: Annotated[int, Field(ge=5, le=10_000), Stricter.LOWER] = 20
    """Actions, and for the rate steps, that a session makes before it is compared with its baseline."""
    memory: Annotated[int, Field(ge=8, le=10_000), Stricter.NEITHER] = 32
    """Actions. Older ones count half, then a quarter, and so on; for the rate the memory is twice as long."""
    slack: Annotated[float, Field(ge=0.25, le=10), Stricter.LOWER] = 1.0
    """Standard deviations that an action may deviate without adding to the sum."""
    rate_threshold: Annotated[float, Field(gt=0, le=100_000), Stricter.LOWER] = 12.0
    """Standard deviations beyond the slack, summed over steps, at which the rate has drifted."""
    mix_threshold: Annotated[float, Field(gt=0, le=100_000), Stricter.LOWER] = 19.0
    """Standard deviations beyond the slack, summed over actions, at which the mix of tools has drifted."""
    new_capability_actions: Annotated[int, Field(ge=1, le=10_000), Stricter.LOWER] = 5
    """Actions with a capability that is not in the baseline; four other actions compensate for one."""
    together_s: Annotated[float, Field(ge=0.001, le=3600), Stricter.LOWER] = 1.0
    """Seconds. Calls at most this far apart are one step."""

    def concerns(self, act: Observation) -> bool:
        """Attempts, except those that wait."""
        return act.is_attempt and not act.refused and act.tool.effect is not _POLL

    def observe(self, state: State, act: Observation) -> Finding | None:
        """Compare an action with those before it, and learn it."""
        tool = _tool(act)
        power = _power(act, tool)
        capability = bool(power or state.deviations) and self._capability(state, act, power)
        rate, mix = self._rate(state, act), self._mix(state, act, tool)
        if not (rate or mix or capability):
            return None
        return self._finding(state, act, _CAPABILITY if capability else _MIX if mix else _RATE)

    def near(self, state: State) -> float:
        """The largest deviation, relative to its threshold."""
        return min(1.0, max((d.sum / self._threshold(code) for code, d in state.deviations.items()), default=0.0))

    def _threshold(self, code: str) -> float:
        if code == _CAPABILITY:
            return _NEW * self.new_capability_actions
        return self.rate_threshold if code == _RATE else self.mix_threshold

    def _rate(self, state: State, act: Observation) -> bool:
        last_ms, now_ms = state.step_ms, act.time_ms
        if last_ms is None or now_ms < last_ms:  # late: the time since the previous step is unknown
            state.step_ms = now_ms
            return False
        if now_ms - last_ms < self.together_s * 1000:
            return False
        state.step_ms = now_ms
        return self._measure(state, act, _STEPS, state.steps, -log(now_ms - last_ms))

    def _mix(self, state: State, act: Observation, tool: str) -> bool:
        mix = state.mix
        used = mix.get(tool, 0)
        bits = log2((state.total + _PRIOR * (len(mix) + 1)) / (used + _PRIOR))
        mix[tool] = used + 1
        state.total += 1
        if len(mix) > _MAX_TOOLS:
            state.total -= mix.pop(min(mix, key=mix.__getitem__))
        if state.total >= self.memory:
            state.mix = {name: count >> 1 for name, count in mix.items() if count > 1}
            state.total = sum(state.mix.values())
        return self._measure(state, act, _TOOLS, state.tools, bits, name=tool)

    def _measure(
        self, state: State, act: Observation, measure: _Measure, usual: Baseline, value: float, *, name: str = ""
    ) -> bool:
        """Learn a value; return whether the sum of the deviations reaches its threshold with it."""
        memory = self.memory * measure.memories
        if usual.count < self.baseline:
            usual.learn(value, memory)
            return False
        mean, spread = usual.mean, max(measure.min_spread, sqrt(usual.variance))
        off = (value - mean) / spread
        if abs(off) > measure.most:
            off = measure.most if off > 0 else -measure.most
            value = mean + off * spread
        usual.learn(value, memory)
        if off <= self.slack and measure.code not in state.deviations:
            return False
        return self._add(state, measure.code, act, off - self.slack, usual=mean, name=name)

    def _capability(self, state: State, act: Observation, power: str) -> bool:
        if power and power not in state.known:
            if state.tools.count >= self.baseline:
                if _CAPABILITY in state.deviations and state.deviations[_CAPABILITY].told:
                    del state.deviations[_CAPABILITY]  # the deviation was about another capability
                found = self._add(state, _CAPABILITY, act, _NEW, name=power)
                if found:
                    state.known += [name for name in state.deviations[_CAPABILITY].names if name not in state.known]
                return found
            state.known.append(power)
        return _CAPABILITY in state.deviations and self._add(state, _CAPABILITY, act, -1.0)

    def _add(
        self, state: State, code: str, act: Observation, amount: float, *, usual: float = 0.0, name: str = ""
    ) -> bool:
        """Add an amount; return whether the deviation reaches its threshold with it."""
        deviation = state.deviations.get(code)
        if deviation is None:
            if amount <= 0:
                return False
            deviation = state.deviations[code] = Deviation(0.0, entry(act, usual))
        threshold = self._threshold(code)
        deviation.sum = min(threshold, deviation.sum + amount)
        if deviation.sum <= 0:
            del state.deviations[code]
            return False
        names = deviation.names
        if name and amount > 0 and len(names) < _MAX_NAMES and name not in names:
            names.append(name)
        if deviation.told or deviation.sum < threshold:
            return False
        deviation.told = True
        return True

    def _finding(self, state: State, act: Observation, code: str) -> Finding:
        """A finding about all reported deviations that last; the new one gives it its code."""
        deviating = {code: state.deviations[code]} | {c: d for c, d in state.deviations.items() if d.told}
        values: Values = {"deviations": ", ".join(deviating)}
        for each, deviation in deviating.items():
            values[f"{each}_actions"] = _actions(deviation, act)
            if deviation.names:
                values[f"{each}_names"] = ", ".join(deviation.names)
        if _RATE in deviating:
            values["usual_step_s"] = round(_usual_step_s(deviating[_RATE]), 3)
        if _MIX in deviating:
            values["usual_surprise_bits"] = round(float(deviating[_MIX].since[_USUAL]), 3)
        return self.finding(
            code,
            _SEVERITIES[len(deviating) - 1],
            "; ".join(_reason(each, deviation, act) for each, deviation in deviating.items()),
            evidence(act, [*(deviation.since for deviation in deviating.values()), entry(act)]),
            confidence=len(deviating) / len(_SEVERITIES),
            values=values,
            thresholds=self.thresholds(
                "baseline", "slack", "rate_threshold", "mix_threshold", "new_capability_actions"
            ),
        )


def _tool(act: Observation) -> str:
    """The program of a command line, the verb of a statement, or the tool; a long name is cut at its beginning."""
    if act.text and act.tool.reading is not _PLAIN:
        found = _PROGRAM.match(act.text, 0, _READ_CHARS)
        if found is not None:
            return found["path"].rpartition("/")[2][-_MAX_NAME_CHARS:].lower()
    return act.action[-_MAX_NAME_CHARS:]


def _power(act: Observation, tool: str) -> str:
    """The harmful capability that the action uses; empty: none, or a declared batch."""
    if act.losses:
        return Effect.DESTRUCTIVE.value if act.batch is None else ""
    for effect in (act.event.effect, act.tool.effect):
        if effect is _NETWORK or effect is _MUTATE:
            return effect.value
    return _NETWORK.value if tool in _NETWORK_PROGRAMS else ""


def _actions(deviation: Deviation, act: Observation) -> int:
    return act.index - int(deviation.since[_INDEX]) + 1


def _usual_step_s(deviation: Deviation) -> float:
    return exp(-float(deviation.since[_USUAL])) / 1000


def _reason(code: str, deviation: Deviation, act: Observation) -> str:
    if code == _RATE:
        return (
            f"faster than before: {_actions(deviation, act)} actions in {seconds([deviation.since, entry(act)])}s,"
            f" where a step took {_usual_step_s(deviation):.3g}s"
        )
    what = "other tools than before" if code == _MIX else "kinds of actions that it did not take before"
    return f"{what}: {', '.join(deviation.names)}, since {_actions(deviation, act)} actions"
