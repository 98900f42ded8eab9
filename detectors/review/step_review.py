"""A review of each action before it runs: its risk, its rationality and its side effects.

Fires: on an attempt whose verdict is not `allow`: `review_warn` (low), `review_modify` (medium), `review_block` (high,
    or critical if a side effect is). The verdict is the hardest of a matrix of risk and rationality with its overriding
    rules, and the rule sets (see `review`). The values of the finding are the scores and their inputs.
Quiet: reading; work that builds on earlier steps, within the scope and near the goal; most actions that are new in the
    session and would only get a warning; deletions that a declared batch covers; scratch files and what the session
    created.
Misses: what `review.reading` misses; unrelated work that shares a word with the goal; a call counts as new again after
    24 different ones. It compares words and patterns, and often reports a risk for normal work. So it decides nothing
    by default: its mode is shadow.
"""

from functools import cached_property
from typing import Annotated, Any, ClassVar, TypeVar

from msgspec import field
from pydantic import Field

from haltline.detectors.commands.rows import expression_of
from haltline.detectors.features import task_scope
from haltline.detectors.features.file_access import Access
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import Detector, settings
from haltline.detectors.framework.severity_counts import severity_of
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.review import reading
from haltline.detectors.review.rules import SETS, BuiltIn, CustomRule, RuleSet, targets_of, verdicts
from haltline.detectors.review.scoring import (
    BASE_RISK,
    Category,
    Progression,
    Verdict,
    aggregate,
    decide,
    rationality_level,
    rationality_score,
    risk_score,
)
from haltline.schemas import expressions as re
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.record import Values
from haltline.schemas.stored import Stored

# A module constant, as it is read at every event: looking up an enum member is ten times as slow.
_SESSION_STARTED = Kind.SESSION_STARTED

_MAX_SEEN = 24
_MAX_FAILED = 16
_MAX_REFUSED = 16
_MAX_BACKUPS = 32
_MAX_PATHS = 64
_MAX_WORDS = 128
_MAX_CHARS = 240
_SHORT = 10
"""Stored characters of a fingerprint."""
_READ_CHARS = 1024
_WORD = re.compile(r"[a-z][a-z0-9]{3,}")
_SEVERITY = {Verdict.WARN: Severity.LOW, Verdict.MODIFY: Severity.MEDIUM, Verdict.BLOCK: Severity.HIGH}
_WHOLE_TREE = expression_of("a command line reads a whole tree")

_Risk = Annotated[float, Field(gt=0, le=1), Stricter.LOWER]
_V = TypeVar("_V")


class StepReviewState(Stored):
    """The scope, the goal, and recent actions."""

    expected: list[str] = field(default_factory=list)
    goal: list[str] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    """By shortened fingerprint of a call: the index of its last attempt."""
    failed: dict[str, int] = field(default_factory=dict)
    """By subject of calls: failures since the last success or change."""
    refused: dict[str, int] = field(default_factory=dict)
    backed_up: dict[str, bool] = field(default_factory=dict)
    """Targets that have a backup copy."""
    changed: int = 0
    """Index of the last action that changed something."""
    file_operations: int = 0


@settings
class StepReview(Detector[StepReviewState]):
    """An attempt whose risk is too high for its rationality, or to which a rule objects."""

    id: ClassVar[str] = "step_review"
    optional: ClassVar[bool] = True
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.SESSION_STARTED, Kind.PROPOSED, Kind.COMPLETED})
    sees: ClassVar[Trait] = Trait.ATTEMPT | Trait.RESULT | Trait.REFUSED | Trait.TASK
    recalls: ClassVar[bool] = True
    ascending: ClassVar[tuple[tuple[str, ...], ...]] = (("medium_risk", "high_risk", "critical_risk"),)

    medium_risk: _Risk = 0.6
    """Lowest risk, from 0 to 1, of a medium level."""
    high_risk: _Risk = 0.8
    """Lowest risk of a high level."""
    critical_risk: _Risk = 0.95
    """Lowest risk of a critical level."""
    expected_paths: tuple[Annotated[str, Field(min_length=1, max_length=512), Stricter.NEITHER], ...] = ()
    """Globs, in addition to those of the task."""
    rule_set: Annotated[RuleSet, Stricter.NEITHER] = "all"
    """Built-in rules in addition to the matrix: all of them, those that block, or none."""
    disabled_rules: tuple[Annotated[BuiltIn, Stricter.NEITHER], ...] = ()
    """Built-in rules of the set that are not applied."""
    custom_rules: Annotated[tuple[CustomRule, ...], Field(max_length=64), Stricter.MORE] = ()
    """Your own rules, applied after the built-in ones."""
    max_file_operations: Annotated[int, Field(ge=1, le=1_000_000), Stricter.LOWER] = 100
    """Actions of a session that changed something; independent of a task's own limit `file_ops`."""

    def observe(self, state: StepReviewState, act: Observation) -> Finding | None:
        """Record the task or a result, or review an attempt."""
        if act.kind is _SESSION_STARTED:
            if act.event.task is not None:
                state.expected = [path[:_MAX_CHARS] for path in act.event.task.expected_paths if path][:_MAX_PATHS]
                state.goal = sorted(set(_WORD.findall(act.event.task.goal.lower())))[:_MAX_WORDS]
            return None
        finding = None
        if act.is_attempt and not act.refused:
            if self._needs_a_look(state, act):
                finding = self._review(state, act, reading.category_of(act))
            _remember(state.seen, act.fingerprint[:_SHORT], act.index, _MAX_SEEN)
        if act.is_result:
            _note_result(state, act)
        return finding

    def _review(self, state: StepReviewState, act: Observation, category: Category) -> Finding | None:
        first_time = act.fingerprint[:_SHORT] not in state.seen
        failed = state.failed.get(act.subject[:_MAX_CHARS], 0) if state.failed else 0
        accessed, outside = self._accessed(state, act, category)
        privileged, dangerous = reading.is_privileged(act), reading.is_dangerous(act)
        risk = risk_score(
            category, out_of_scope=outside, failed_before=failed, privileged=privileged, dangerous=dangerous
        )
        level = severity_of(risk, (self.medium_risk, self.high_risk, self.critical_risk)) or Severity.LOW
        progression = _progression(state, act)
        catastrophe = reading.is_catastrophe(act, accessed)
        alternative = (progression is Progression.REPEATS and failed > 1) or _searches_all(act.text)
        inside = bool(accessed and (state.expected or self.expected_paths)) and not outside
        aligned = inside or (not outside and _aligned(state, act))
        rationality = rationality_score(aligned=aligned, progression=progression, better_alternative=alternative)
        verdict = decide(
            level,
            rationality_level(rationality),
            worst_side_effect=Severity.CRITICAL if catastrophe else None,
            first_time=first_time,
            dangerous=dangerous,
        )
        against = dict(
            verdicts(
                act,
                category,
                tuple(name for name in SETS[self.rule_set] if name not in self.disabled_rules),
                self.custom_rules,
                file_operations=state.file_operations + 1,
                max_file_operations=self.max_file_operations,
                dangerous=dangerous,
            )
        )
        first_warning = first_time and all(v is Verdict.WARN for v in against.values())
        final = aggregate((verdict, *(() if first_warning else against.values())))
        if final is Verdict.ALLOW:
            return None
        effects = reading.side_effects(act, category, accessed, state.backed_up)
        values: Values = {
            "decision": final.value,
            "category": category.value,
            "risk": risk,
            "risk_level": level.value,
            "rationality": rationality,
            "progression": progression.name.lower(),
            "aligned": "unknown" if aligned is None else str(aligned).lower(),
            "out_of_scope": int(outside),
            "failed_before": failed,
            "privileged": int(privileged),
            "dangerous": int(dangerous),
            "side_effects": "; ".join(map(str, effects))[:512],
            "rules": ", ".join(against),
        }
        critical = final is Verdict.BLOCK and catastrophe
        return self.finding(
            f"review_{final.value}",
            Severity.CRITICAL if critical else _SEVERITY[final],
            _reason(final, values, verdict),
            (act.evidence,),
            confidence=max(risk, 1 - rationality),
            values=values,
            thresholds=self.thresholds("medium_risk", "high_risk", "critical_risk", "max_file_operations"),
            target=targets_of(act)[0][:512] or None,
        )

    def _needs_a_look(self, state: StepReviewState, act: Observation) -> bool:
        """Return False for most actions: those that are new in the session and plainly harmless are allowed."""
        if act.batch is not None and act.batch.targets:
            return False
        short = act.fingerprint[:_SHORT]
        if short in state.seen or act.losses or state.expected or self.expected_paths or self.custom_rules:
            return True
        if state.file_operations >= self.max_file_operations or self._doubts_commands:
            return True
        return bool(state.failed and act.subject[:_MAX_CHARS] in state.failed) or reading.is_suspect(act)

    @cached_property
    def _doubts_commands(self) -> bool:
        """Whether the settings make any plain command a high risk."""
        return self.high_risk <= BASE_RISK[Category.COMMAND]

    def _accessed(
        self, state: StepReviewState, act: Observation, category: Category
    ) -> tuple[tuple[Access, ...], bool]:
        """The relevant accessed paths, and whether one of them is outside of the scope."""
        globs = (*self.expected_paths, *state.expected)
        if not globs and (category in (Category.READ, Category.UNKNOWN) or not reading.may_be_critical(act)):
            return (), False
        accessed = act.accesses
        outside = bool(globs) and any(
            not task_scope.is_incidental(path, changes=changes)
            and not task_scope.in_scope(path, globs, changes=changes)
            and not act.calls.belongings.own.get(f"path={path}")
            for path, changes in accessed
        )
        return accessed, outside


def _searches_all(text: str) -> bool:
    return (" / " in text or text.endswith(" /")) and _WHOLE_TREE.search(text, 0, _READ_CHARS) is not None


def _progression(state: StepReviewState, act: Observation) -> Progression:
    short = act.fingerprint[:_SHORT]
    if short in state.refused:
        return Progression.CONTRADICTS
    last = state.seen.get(short)
    if last is not None:
        return Progression.BUILDS if state.changed > last or act.waits else Progression.REPEATS
    return Progression.BUILDS if state.changed and act.index - state.changed <= 1 else Progression.NEW_PATH


def _aligned(state: StepReviewState, act: Observation) -> bool | None:
    """Return whether it shares a word with the goal; None without a goal."""
    if not state.goal:
        return None
    text = " ".join((act.action, *act.event.targets, _text_of(act.args)))[:_READ_CHARS].lower()
    return not set(_WORD.findall(text)).isdisjoint(state.goal)


def _text_of(args: dict[str, Any] | None) -> str:
    return " ".join(str(value)[:_READ_CHARS] for value in (args or {}).values() if isinstance(value, (str, int)))


def _note_result(state: StepReviewState, act: Observation) -> None:
    if act.refused:
        _remember(state.refused, act.fingerprint[:_SHORT], act.index, _MAX_REFUSED)
    elif act.changes and (act.runs or not act.failed):  # a failed program may have changed something before it failed
        state.changed = max(state.changed, act.index)
        state.file_operations += 1
        state.failed.clear()  # repeating a test after an edit is normal work
        for target in act.creates:
            if "." not in target and "~" not in target:
                continue
            original = reading.backs_up(target[:_MAX_CHARS])
            if original:
                _remember(state.backed_up, original, True, _MAX_BACKUPS)
    elif act.failed:
        about = act.subject[:_MAX_CHARS]
        _remember(state.failed, about, min(3, state.failed.get(about, 0) + 1), _MAX_FAILED)
    elif state.failed:
        state.failed.pop(act.subject[:_MAX_CHARS], None)


def _remember(known: dict[str, _V], key: str, value: _V, most: int) -> None:
    known.pop(key, None)
    known[key] = value
    if len(known) > most:
        del known[next(iter(known))]


def _reason(final: Verdict, values: Values, by_matrix: Verdict) -> str:
    why = []
    if float(values["risk"]) > 0.7:
        why.append("high risk")
    if float(values["rationality"]) < 0.5:
        why.append("low rationality")
    if values["out_of_scope"]:
        why.append("outside of the task's scope")
    if values["rules"] and final is not by_matrix:
        why.append(f"rules: {values['rules']}")
    if values["side_effects"]:
        why.append(f"leaves {values['side_effects']}")
    scores = f"risk {values['risk']} ({values['risk_level']}), rationality {values['rationality']:.2f}"
    return f"{final.value}: {values['category']}, {scores}" + (f"; {', '.join(why)}" if why else "")
