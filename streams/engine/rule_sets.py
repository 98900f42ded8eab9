"""The detectors and rules that apply to a session."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from msgspec import Raw

from haltline.detectors import build
from haltline.detectors.cross_session.base import CrossSessionPattern
from haltline.detectors.drift.goal_drift import GoalDrift
from haltline.detectors.features.observation import Observation
from haltline.detectors.framework.base import Detector, Pattern
from haltline.detectors.framework.dispatch import Dispatch
from haltline.detectors.framework.plugins import Plugins
from haltline.interventions.levels.default_levels import JUDGEMENT
from haltline.schemas.decisions import Mode
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.findings import Finding
from haltline.schemas.policy import Override, Policy, Rule
from haltline.streams.engine.effective_rules import EffectiveRules
from haltline.streams.engine.log_position import Failure
from haltline.streams.engine.memories import looked_at, opened

_CACHED_WATCHES = 1024
"""The number of cached override combinations, with their detectors."""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The detectors and rules that apply to a session."""

    dispatch: Dispatch
    rules: Mapping[str, Rule]
    recalled: bool
    """Whether some of them use whether a call was made before."""
    measured: bool
    """Whether some of them use the session's progress, or may: the inputs of another package's detector are unknown."""

    def observe(self, memories: dict[str, Any], act: Observation) -> tuple[Sequence[Finding], Sequence[Failure]]:
        """Return the detectors' findings in an event, and their failures. Changes `memories`, by detector, in place."""
        if act.event.task is not None and act.calls.is_other_task(act.event):
            forget_progress(memories)
        if not self.dispatch.by_kind[act.kind]:
            return (), ()  # nothing about it needs to be computed
        table = self.dispatch.tables[act.kind].get(act.sights)
        if table is None:
            table = self.dispatch.table(act.kind, act.sights)
        findings: list[Finding] = []
        failures: list[Failure] = []
        for detector_id, wakes, concerns, start, observe in table:
            try:
                # Of detectors that any event wakes, the memory is not even looked up before `concerns`.
                if not wakes and detector_id not in memories:
                    continue
                if concerns is not None and not concerns(act):
                    continue
                memory = memories.get(detector_id)
                if memory is None:
                    memory = memories[detector_id] = start()
                elif type(memory) is Raw:
                    memory = opened(memories, detector_id)
                finding = observe(memory, act)
            except Exception as error:
                failures.append(Failure(detector_id, error))
            else:
                if finding is not None:
                    findings.append(finding)
                    act.found = findings
                    if self.rules[detector_id].mode is not Mode.SHADOW:
                        act.enforced = (*act.enforced, finding)
        return findings, failures

    def near(self, memories: dict[str, Any], kind: Kind) -> dict[str, float]:
        """Return how close each rule is to a finding, 0 to 1; distant rules are left out."""
        of_kind = self.dispatch.by_kind[kind]
        known = ((d, memory) for d in of_kind if (memory := looked_at(memories, d.id)) is not None)
        near = {d.id: round(d.near(memory), 3) for d, memory in known}
        return {name: value for name, value in near.items() if value > 0}


def forget_progress(memories: dict[str, Any]) -> None:
    """Drop what was found of the session's progress before a new task or prompt."""
    for rule in JUDGEMENT - {GoalDrift.id}:  # which itself tracks the goal
        memories.pop(rule, None)


class RuleSets:
    """The rule sets of one policy, by the overrides that apply."""

    def __init__(
        self, policy: Policy, known: Mapping[str, type[Pattern[Any]]], plugins: Plugins, *, enforces: bool = False
    ) -> None:
        """Build every detector of the policy, and check its overrides.

        `enforces`: leave out detectors without consequences; their findings are not recorded here.

        Raises:
            ValueError: a rule is unknown or a setting is wrong; says which, what was expected and what was given.

        """
        self.rules = EffectiveRules(policy, known)
        self._known = known
        self._plugins = plugins
        self._enforces = enforces
        self._overridden = bool(policy.overrides)
        self._default = self._under(())
        for number, override in enumerate(policy.overrides):
            if not override.rules.keys().isdisjoint(plugins.ids):
                self._under((number,))  # a detector that only an override starts is checked now, not at an event
        self._cached = lru_cache(maxsize=_CACHED_WATCHES)(self._under)

    @property
    def shadowed(self) -> bool:
        """Return whether some rule that can find anything may be in shadow, for some session at some time."""
        running = {detector.id for kind in Kind for detector in self._default.dispatch.by_kind[kind]}
        return any(
            name in running or name in self.rules.overridden or issubclass(self._known[name], CrossSessionPattern)
            for name in self.rules.shadowed
        )

    def at(self, event: ActionEvent, time_ms: int) -> RuleSet:
        """Return the rule set of the event's session at this moment of its event time."""
        if not self._overridden:
            return self._default
        return self._cached(self.rules.overrides(event.agent_id, event.session_id, time_ms))

    def _under(self, overrides: tuple[int, ...]) -> RuleSet:
        rules = self.rules.under(overrides)
        detectors = build(rules, self._known, self._plugins)
        if self._enforces:
            detectors = _deciding(detectors, self.rules.deciding, self._plugins)
        return RuleSet(
            dispatch=Dispatch(detectors),
            rules=rules,
            recalled=any(d.recalls for d in detectors),
            measured=any(d.measures or d.id in self._plugins.ids for d in detectors),
        )


def _deciding(
    detectors: tuple[Detector[Any], ...], deciding: Collection[str], plugins: Plugins
) -> tuple[Detector[Any], ...]:
    """Return the detectors that decide somewhere; all of them if one of these may use other findings."""
    deciders = tuple(d for d in detectors if d.id in deciding)
    return detectors if any(d.combines or d.id in plugins.ids for d in deciders) else deciders


def on_probation(
    policy: Policy, known: Mapping[str, type[Pattern[Any]]], plugins: Plugins, *, enforces: bool = False
) -> RuleSets:
    """Return the rule sets of sessions on probation: the policy, with additions that can only be stricter.

    Raises:
        ValueError: as for `RuleSets`.

    """
    stricter = Override(rules=policy.operated.probation.rules)
    place = f"overrides.{len(policy.overrides)}."
    try:
        policy = policy.model_copy(update={"overrides": (*policy.overrides, stricter)})
        return RuleSets(policy, known, plugins, enforces=enforces)
    except ValueError as error:
        raise ValueError(str(error).replace(place, "operations.probation.")) from None
