"""The rules that apply to a session: the strictest of the policy and its overrides, unless an operator exempts one."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Any

from haltline.detectors import PATTERNS, require_known, unnamed
from haltline.detectors.framework.base import Pattern
from haltline.detectors.framework.settings import check, construct, restrict
from haltline.interventions.levels.default_levels import JUDGEMENT, default_level, default_mode
from haltline.schemas.decisions import Mode
from haltline.schemas.findings import Severity
from haltline.schemas.policy import Override, Policy, Rule
from haltline.schemas.removed_rules import REMOVED

MAX_MEETINGS = 5_000
"""The most combinations of one rule's overrides; a policy with more is refused, as not all could be checked."""

_CACHED_SESSIONS = 65_536
_WILD = "*?["


class EffectiveRules:
    """The rules of one policy, for every session."""

    def __init__(self, policy: Policy, detectors: Mapping[str, type[Pattern[Any]]] = PATTERNS) -> None:
        """Check every combination of the policy's overrides; `detectors` are those that rules can refer to.

        Raises:
            ValueError: a rule is unknown or a setting is wrong, also if only a combination of overrides makes it so;
            says where, what was expected and what was given.

        """
        if policy.preset is not None:
            raise ValueError(f"preset: expected its rules spelled out, as the loader does, got {policy.preset.value!r}")
        _require_known(policy, detectors)
        self._policy = policy = _spelled_out(policy, detectors)
        self._detectors = tuple(detectors.values())
        for detector in self._detectors:
            construct(detector, policy.rules[detector.id].settings if detector.id in policy.rules else {})
            _check_meetings(policy, detector)
        self._ends_ms = sorted({o.exemption.expires for o in policy.overrides if o.exemption is not None})
        self._found = lru_cache(maxsize=_CACHED_SESSIONS)(self._find)

    def overrides(self, agent_id: str, session_id: str, time_ms: int) -> tuple[int, ...]:
        """Return the indexes of the overrides that apply to a session at a moment of its event time."""
        if not self._policy.overrides:
            return ()
        return self._found(agent_id, session_id, bisect_right(self._ends_ms, time_ms))

    def under(self, overrides: Sequence[int]) -> dict[str, Rule]:
        """Return every detector's rule under these overrides, with its mode and the levels of every severity."""
        holding = [self._policy.overrides[number] for number in overrides]
        return {detector.id: rule_of(self._policy, detector, holding) for detector in self._detectors}

    @cached_property
    def deciding(self) -> frozenset[str]:
        """Return the rules that decide for some session at some time.

        The rules of a session change with the ids in its events and with the end of an exemption. A rule runs for all
        sessions, so that it has their history.
        """
        rules = {
            name
            for override in self._policy.overrides
            for name, rule in override.rules.items()
            if "mode" in rule.model_fields_set and rule.mode is not Mode.SHADOW
        }
        return frozenset(name for name, rule in self.under(()).items() if rule.mode is not Mode.SHADOW or name in rules)

    @cached_property
    def overridden(self) -> frozenset[str]:
        """Return the rules that some override sets."""
        return frozenset(name for override in self._policy.overrides for name in override.rules)

    @cached_property
    def shadowed(self) -> frozenset[str]:
        """Return the rules that may run in shadow for some session at some time."""
        exempt = {
            name
            for override in self._policy.overrides
            if override.exemption is not None
            for name, rule in override.rules.items()
            if "mode" in rule.model_fields_set and rule.mode is Mode.SHADOW
        }
        return frozenset(
            name
            for name, rule in self.under(()).items()
            if (rule.enabled or name in self.overridden) and (rule.mode is Mode.SHADOW or name in exempt)
        )

    def _find(self, agent_id: str, session_id: str, ended: int) -> tuple[int, ...]:
        time_ms = self._ends_ms[ended - 1] if ended else 0
        holding = self._policy.overrides_for(agent_id, session_id, time_ms)
        numbers = {id(override): number for number, override in enumerate(self._policy.overrides)}
        return tuple(numbers[id(override)] for override in holding)


def rule_of(policy: Policy, detector: type[Pattern[Any]], overrides: Sequence[Override]) -> Rule:
    """Return a detector's rule under these overrides, complete except for settings with default values.

    Raises:
        ValueError: a setting is wrong.

    """
    given = policy.rules.get(detector.id) or unnamed(detector)
    rule = given.model_copy(
        update={
            "mode": given.mode if "mode" in given.model_fields_set else _mode_by_default(policy, detector.id),
            "levels": {s: given.levels.get(s) or default_level(detector.id, s) for s in Severity},
        }
    )
    # An exemption applies wherever it is in the document.
    for override in sorted(overrides, key=lambda o: o.exemption is not None):
        other = override.rules.get(detector.id)
        if other is not None:
            merge = _restricted if override.exemption is None else _exempted
            rule = rule.model_copy(update=merge(detector, rule, other))
    return rule


def _mode_by_default(policy: Policy, detector_id: str) -> Mode:
    """Return the mode of a rule for which the policy sets none."""
    mode = default_mode(detector_id)
    return mode if policy.judgement is None or detector_id not in JUDGEMENT else min(mode, policy.judgement)


def without_effect(policy: Policy, detectors: Mapping[str, type[Pattern[Any]]] = PATTERNS) -> list[str]:
    """Return the overrides' settings without effect: they loosen a rule without an exemption. One line each."""
    lines = []
    for number, override in enumerate(policy.overrides):
        if override.exemption is not None:
            continue
        for detector_id, override_rule in override.rules.items():
            if detector_id in REMOVED:
                continue
            detector = detectors[detector_id]
            rule = rule_of(policy, detector, [override])
            lines += [
                f"overrides.{number}.rules.{detector_id}.{place}: {overridden} is looser than {held}, which holds; "
                "an exemption (by, reason, expires) would loosen"
                for place, overridden, held in _ignored(detector, rule, override_rule)
            ]
    return lines


def _restricted(detector: type[Pattern[Any]], rule: Rule, other: Rule) -> dict[str, Any]:
    fields = other.model_fields_set
    return {
        "enabled": rule.enabled or (other.enabled and (detector.optional or "enabled" in fields)),
        "mode": max(rule.mode, other.mode) if "mode" in fields else rule.mode,
        "levels": rule.levels | {s: max(rule.levels[s], level) for s, level in other.levels.items()},
        "settings": restrict(detector, rule.settings, other.settings) if other.settings else rule.settings,
    }


def _exempted(detector: type[Pattern[Any]], rule: Rule, other: Rule) -> dict[str, Any]:
    return {name: getattr(other, name) for name in other.model_fields_set} | {
        "enabled": other.enabled if detector.optional or "enabled" in other.model_fields_set else rule.enabled,
        "levels": {**rule.levels, **other.levels},
        "settings": {**rule.settings, **check(detector, other.settings)},
    }


def _ignored(detector: type[Pattern[Any]], rule: Rule, overriding: Rule) -> Iterator[tuple[str, object, object]]:
    if "enabled" in overriding.model_fields_set and overriding.enabled is not rule.enabled:
        yield "enabled", overriding.enabled, rule.enabled
    if "mode" in overriding.model_fields_set and overriding.mode is not rule.mode:
        yield "mode", overriding.mode.value, rule.mode.value
    for severity, level in overriding.levels.items():
        if level is not rule.levels[severity]:
            yield f"levels.{severity.value}", level.value, rule.levels[severity].value
    for name, value in check(detector, overriding.settings).items():
        held = rule.settings[name]
        # Named limits that the override does not set stay unchanged.
        if (held if not isinstance(held, dict) else {key: held[key] for key in value}) != value:
            yield f"settings.{name}", value, held


def _spelled_out(policy: Policy, detectors: Mapping[str, type[Pattern[Any]]]) -> Policy:
    """Return the policy with a rule for each detector that is not built in.

    A correlation sets its own mode and level. Another package's detector that only overrides name is off by default. An
    optional detector runs if a correlation uses it.
    """
    rules = dict(policy.rules)
    goes_by = [s.finding for c in policy.correlations for s in c.select.values() if s.finding is not None]
    for name, detector in detectors.items():
        if detector.optional and name not in rules and any(fnmatchcase(name, glob) for glob in goes_by):
            rules[name] = Rule()
    for correlation in policy.correlations:
        rule = rules.get(correlation.rule_id, Rule())
        begun = {} if correlation.level is None else {correlation.severity: correlation.level}
        mode = rule.mode if "mode" in rule.model_fields_set else correlation.status.mode
        levels = {**begun, **rule.levels}
        rules[correlation.rule_id] = Rule(enabled=rule.enabled, mode=mode, settings=rule.settings, levels=levels)
    for name in detectors:
        if name not in PATTERNS and name not in rules:
            rules[name] = Rule(enabled=False)
    return policy.model_copy(update={"rules": rules})


def _require_known(policy: Policy, detectors: Mapping[str, type[Pattern[Any]]]) -> None:
    require_known(policy.rules, detectors)
    for number, override in enumerate(policy.overrides):
        try:
            require_known(override.rules, detectors)
        except ValueError as error:
            raise ValueError(f"overrides.{number}.{error}") from None


def _check_meetings(policy: Policy, detector: type[Pattern[Any]]) -> None:
    """Check every combination of overrides: each can be valid alone and invalid together with others.

    Raises ValueError naming the last override of the first invalid combination.
    """
    setting = [
        (number, override)
        for number, override in enumerate(policy.overrides)
        if detector.id in override.rules and override.rules[detector.id].settings
    ]
    for tried, meeting in enumerate(_meetings(setting)):
        if tried == MAX_MEETINGS:
            raise ValueError(
                f"overrides: expected at most {MAX_MEETINGS} ways in which those with settings of {detector.id} can "
                f"meet in one session, got more with {len(setting)} of them; name agents and sessions more narrowly"
            )
        try:
            construct(detector, rule_of(policy, detector, [override for _, override in meeting]).settings)
        except ValueError as error:
            raise ValueError(f"overrides.{meeting[-1][0]}.{error}") from None


_Numbered = tuple[int, Override]


def _meetings(overrides: Sequence[_Numbered]) -> Iterator[tuple[_Numbered, ...]]:
    """Yield every combination of overrides that can apply to one session, in their order."""
    for place, one in enumerate(overrides):
        yield (one,)
        can_join = [other for other in overrides[place + 1 :] if _can_meet(one[1], other[1])]
        for others in _meetings(can_join):
            yield (one, *others)


def _can_meet(one: Override, other: Override) -> bool:
    return _globs_meet(one.agent, other.agent) and _globs_meet(one.session, other.session)


def _globs_meet(one: str, other: str) -> bool:
    """Return False if no text matches both. Of two patterns, only the fixed prefixes and suffixes are compared."""
    if not any(wild in one for wild in _WILD):
        return fnmatchcase(one, other)
    if not any(wild in other for wild in _WILD):
        return fnmatchcase(other, one)
    starts = [glob[: min(glob.find(wild) for wild in _WILD if wild in glob)] for glob in (one, other)]
    ends = [glob[max(glob.rfind(wild) for wild in "*?]") + 1 :] for glob in (one, other)]
    return (starts[0].startswith(starts[1]) or starts[1].startswith(starts[0])) and (
        ends[0].endswith(ends[1]) or ends[1].endswith(ends[0])
    )
