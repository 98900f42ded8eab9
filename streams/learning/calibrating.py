"""The calibration of judgement rules: thresholds by a budget for false stops, from recorded sessions. Pure.

Sessions that operators labelled as runaways are not part of the budget. All others count as sound, also unlabelled
ones: a stop among them counts against the budget until somebody has judged it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pydantic import TypeAdapter

from haltline.detectors.combining.agreement import Agreement
from haltline.detectors.features.additive_model import Model
from haltline.detectors.framework.plugins import NO_PLUGINS, Plugins
from haltline.detectors.session.stagnation import SHIPPED, Stagnation
from haltline.detectors.session.stagnation_candidate import StagnationCandidate
from haltline.interventions.levels.default_levels import JUDGEMENT
from haltline.schemas.decisions import Level, Mode
from haltline.schemas.policy import Policy, Rule
from haltline.streams.engine.core import Core
from haltline.streams.learning.candidate import next_version
from haltline.streams.learning.false_stops import choose, most_stops, sessions_needed
from haltline.streams.learning.thresholds import calibrated_rules, settings_of, thresholds_of
from haltline.streams.replay.backtest import Recorded, backtest, only
from haltline.streams.replay.label_precision import CONFIRMED, FALSE_ALARM, MISSED

_RUNAWAY: Final = frozenset({CONFIRMED, MISSED})


@dataclass(frozen=True, slots=True)
class Stop:
    """The first stop of a session by one rule."""

    session_id: str
    seq: int
    event_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ladder:
    """One rule, and the sessions stopped at each of its steps."""

    rule: str
    settings: tuple[dict[str, Any], ...]
    """The settings of each step, strictest first."""
    as_set: int
    """The number of the policy's step."""
    stops: tuple[Mapping[str, Stop], ...]
    """The stops of each step, by session; one entry more than `settings`: in shadow there are none."""

    def among(self, sessions: frozenset[str]) -> tuple[frozenset[str], ...]:
        """Return which of these sessions each step stops."""
        return tuple(sessions & stops.keys() for stops in self.stops)


@dataclass(frozen=True)
class Calibration:
    """A proposal, and its effect on the sessions."""

    policy: Policy
    budget: float
    fine: frozenset[str]
    runaways: frozenset[str]
    judged: frozenset[str]
    """Those of `fine` that operators labelled as false alarms."""
    ladders: tuple[Ladder, ...]
    chosen: Mapping[str, int]
    """The number of the proposed step, by rule."""

    @property
    def needed(self) -> int:
        """The least number of sound sessions that the budget requires."""
        return sessions_needed(self.budget)

    @property
    def is_enough(self) -> bool:
        """Whether there are enough."""
        return len(self.fine) >= self.needed

    @property
    def stays_in_shadow(self) -> bool:
        """Whether the policy keeps judgement rules in shadow, and there are too few sessions to end that."""
        return self.policy.judgement is not None and not self.is_enough

    def in_force(self, ladder: Ladder) -> Mapping[str, Stop]:
        """Return the stops of a rule under the present policy, by session."""
        return {} if self.policy.judgement is not None else ladder.stops[ladder.as_set]

    def then(self, ladder: Ladder) -> Mapping[str, Stop]:
        """Return the stops of a rule under the proposal, once it is enforced, by session."""
        return ladder.stops[self.chosen[ladder.rule]]

    @property
    def proposed(self) -> Policy:
        """Return the next policy: unchanged while there are too few sessions to end its `judgement`."""
        return next_version(self.policy, self.policy.rules) if self.stays_in_shadow else self.enforced

    @cached_property
    def enforced(self) -> Policy:
        """The policy with the chosen thresholds and without `judgement`."""
        rules = dict(self.policy.rules)
        for ladder in self.ladders:
            step = self.chosen[ladder.rule]
            if step == ladder.as_set:
                continue
            rule = rules.get(ladder.rule, Rule())
            is_shadow = step == len(ladder.settings)
            update = {"mode": Mode.SHADOW} if is_shadow else {"settings": ladder.settings[step]}
            rules[ladder.rule] = rule.model_copy(update=update)
        fields = {name: getattr(self.policy, name) for name in self.policy.model_fields_set - {"judgement"}}
        return next_version(Policy(**fields), rules)

    def counts(self, ladder: Ladder) -> tuple[int, int, int, int]:
        """Return how many sound sessions a rule stops now and under the proposal, and likewise labelled runaways."""
        before, after = self.in_force(ladder).keys(), self.then(ladder).keys()
        fine, runaways = self.fine, self.runaways
        return len(before & fine), len(after & fine), len(before & runaways), len(after & runaways)

    def setting(self, ladder: Ladder) -> str:
        """Return the proposal for a rule in a few words."""
        step = self.chosen[ladder.rule]
        if step == len(ladder.settings):
            return "shadow"
        before = thresholds_of(ladder.rule, ladder.settings[ladder.as_set])
        after = thresholds_of(ladder.rule, ladder.settings[step])
        changed = [
            f"{name} {_text(before[name])} -> {_text(after[name])}" for name in after if after[name] != before[name]
        ]
        return ", ".join(changed) or "as it is"

    def examples(self, ladder: Ladder, most: int) -> list[Stop]:
        """Return stops of unlabelled sessions: those of the proposal first, then those of the present step."""
        stops = {**self.then(ladder)}
        stops |= {name: stop for name, stop in ladder.stops[ladder.as_set].items() if name not in stops}
        return [stop for name, stop in stops.items() if name in self.fine - self.judged][:most]


def ladders(policy: Policy, sessions: Sequence[Recorded]) -> Iterator[Ladder]:
    """Yield each judgement rule that may stop a session, alone, in each of its steps.

    Raises:
        ValueError: a setting of the policy is wrong.

    """
    names = calibrated_rules(policy)
    tried = {name: settings_of(policy, name) for name in names}
    hints = {name: _rule(policy, name, tried[name][0][0], Mode.WARN) for name in names}
    finding: dict[str, list[Recorded]] = {name: [] for name in names}
    core = Core(only(policy, hints))
    for session in sessions:
        for name in {finding.detector for finding in backtest(core, session).findings} & finding.keys():
            finding[name].append(session)
    for name in names:
        steps, as_set = tried[name]
        remaining = finding[name]
        stops = []
        for settings in steps:
            # `agreement` uses the findings of all others.
            others = hints if name == Agreement.id else {}
            core = Core(only(policy, {**others, name: _rule(policy, name, settings, Mode.ENFORCE)}))
            found = {s.session_id: stop for s in remaining if (stop := _stop(core, s, name)) is not None}
            remaining = [session for session in remaining if session.session_id in found]
            stops.append(found)
        yield Ladder(name, tuple(steps), as_set, (*stops, {}))


def calibrate(
    policy: Policy, sessions: Sequence[Recorded], found: Sequence[Ladder], budget: float, plugins: Plugins = NO_PLUGINS
) -> Calibration:
    """Return the strictest steps with which all rules together keep the budget; none stop if it needs more sessions.

    Raises ValueError when the proposed policy cannot be used.
    """
    runaways = frozenset(session.session_id for session in sessions if session.label in _RUNAWAY)
    fine = frozenset(session.session_id for session in sessions) - runaways
    judged = frozenset(session.session_id for session in sessions if session.label == FALSE_ALARM)
    wrong = {ladder.rule: ladder.among(fine) for ladder in found}
    right = {ladder.rule: ladder.among(runaways) for ladder in found}
    chosen = choose(wrong, right, max(0, most_stops(budget, len(fine))))
    calibration = Calibration(policy, budget, fine, runaways, judged, tuple(found), chosen)
    Core(calibration.enforced, plugins)
    return calibration


def stopped_together(policy: Policy, sessions: Sequence[Recorded], plugins: Plugins = NO_PLUGINS) -> frozenset[str]:
    """Return the sessions that some judgement rule stops under a whole policy."""
    core = Core(policy, plugins)
    return frozenset(
        session.session_id
        for session in sessions
        if any(d.detector in JUDGEMENT and Level(d.level) >= Level.PAUSE for d in backtest(core, session).decisions)
    )


def pinned(policy: Policy) -> Policy:
    """Return the policy with the model and thresholds of its judgement rules pinned across releases.

    If its model differs from this release's, the release's model is tried in shadow beside it.
    """
    rules = dict(policy.rules)
    for name in calibrated_rules(policy):
        rule = rules.get(name, Rule())
        rules[name] = rule.model_copy(update={"settings": {**thresholds_of(name, rule.settings), **rule.settings}})
    rule = rules.get(Stagnation.id, Rule())
    dump = TypeAdapter(Model).dump_python
    settings = {"model": dump(SHIPPED, mode="json"), **rule.settings}
    rules[Stagnation.id] = rule.model_copy(update={"settings": settings})
    if TypeAdapter(Model).validate_python(settings["model"]) != SHIPPED and StagnationCandidate.id not in rules:
        # Under its own name the candidate would not run, because `stagnation` has the release's model by default.
        tried = {**dump(SHIPPED, mode="json"), "name": f"{SHIPPED.name} candidate"}
        rules[StagnationCandidate.id] = Rule(mode=Mode.SHADOW, settings={**settings, "model": tried})
    return policy.model_copy(update={"rules": rules})


def _rule(policy: Policy, name: str, settings: dict[str, Any], mode: Mode) -> Rule:
    rule = policy.rules.get(name, Rule())
    return rule.model_copy(update={"enabled": True, "mode": mode, "settings": settings})


def _stop(core: Core, session: Recorded, rule: str) -> Stop | None:
    result = backtest(core, session)
    if result.first is None or result.first.detector != rule:
        return None
    seq = result.first.seq
    reason = next(d.reason for d in result.decisions if d.seq == seq and d.detector == rule)
    return Stop(session.session_id, seq, result.first.event_id, reason)


def _text(value: Any) -> str:
    return "/".join(f"{one:g}" for one in value) if isinstance(value, tuple) else f"{value:g}"
