"""The session's actions have less and less in common with its goal.

Fires: `goal_drift` (medium), once until it recovers, when over the last `window` actions (at least `min_actions`) the
    mean alignment is below `mean` and the alignment has changed by less than `change` (a negative number). The change
    is the slope of the regression line through the alignments, times their number less one. (The slope alone, as the
    rule was first published, cannot be below -0.3 for five values or more.) The alignment of an action is its greatest
    word similarity to one of the goal's paragraphs: `jaccard` (common words divided by all words), or `overlap`
    (divided by the words of the shorter side).
Quiet: without a goal; actions without words; work whose words were never close to those of its goal.
Misses: drift that keeps the goal's words; goals in another language than the work; a sudden change within the last few
    actions. It compares words and not meaning, and normal work also moves from the goal's words to its own. Of 357
    recorded sessions that were resolved, `jaccard` finds 2 % and `overlap` 38 %; of 124 that were not, 2 % and 47 %. So
    it decides nothing by default: its mode is shadow.
"""

from collections.abc import Sequence
from functools import lru_cache
from operator import mul
from typing import Annotated, Any, ClassVar, Literal

from msgspec import field
from pydantic import Field

from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import Detector, settings
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import Entry, entry, evidence
from haltline.schemas import expressions as re
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.stored import Stored

# A module constant, as it is read at every event: looking up an enum member is ten times as slow.
_SESSION_STARTED = Kind.SESSION_STARTED

_MAX_GOAL_CHARS = 8192
_MAX_GOALS = 16
_MAX_WORDS = 256
"""Maximum number of words per paragraph of a goal."""
_MAX_TEXT_CHARS = 1024
"""Characters that are read of an action."""
_MIN_WORDS = 3
"""A paragraph or an action with fewer words is not compared."""
_WORD = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{3,}|\d{3,}|[^\W\d_a-zA-Z]{2,}")
_COMMON = frozenset((
    "the", "and", "for", "with", "that", "this", "from", "are", "was", "not", "you", "your", "have", "has", "can",
    "will", "should", "would", "when", "which", "what", "into", "but", "all", "any", "its", "our", "please", "there",
    "then", "python", "python3", "bash", "cat", "grep", "sed", "echo", "import", "print", "def", "return", "self",
    "none", "true", "false", "testbed", "eof", "dev", "null", "tmp", "usr", "bin", "to", "of", "in", "is", "it",
    "on", "as", "be", "or", "an", "at", "by", "if", "we", "do", "my", "me", "py",
))  # fmt: skip


class GoalDriftState(Stored):
    """The goal's words, and the alignment of the last actions."""

    goals: list[list[str]] = field(default_factory=list)
    """Words by paragraph, as stored by older releases."""
    index: dict[str, int] = field(default_factory=dict)
    """By word of the goal: the paragraphs that contain it, as the bits of a number."""
    sizes: list[int] = field(default_factory=list)
    """Words per paragraph."""
    actions: list[Entry] = field(default_factory=list)
    alignments: list[float] = field(default_factory=list)
    """The alignment of each action. A separate list, because every action iterates over it."""
    told: bool = False


@settings
class GoalDrift(Detector[GoalDriftState]):
    """A mean alignment below `mean` that has changed by less than `change` over the window."""

    id: ClassVar[str] = "goal_drift"
    optional: ClassVar[bool] = True
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.SESSION_STARTED, Kind.PROPOSED, Kind.COMPLETED})
    sees: ClassVar[Trait] = Trait.BEGUN | Trait.TASK
    wakes_at: ClassVar[Trait] = Trait.TASK
    ascending: ClassVar[tuple[tuple[str, ...], ...]] = (("min_actions", "window"),)

    mean: Annotated[float, Field(gt=0, le=1), Stricter.HIGHER] = 0.5
    """Mean alignment from 0 to 1; a lower one may be drift."""
    change: Annotated[float, Field(ge=-2, lt=0), Stricter.HIGHER] = -0.3
    """Change of the alignment over the window, from -2 to 0; a deeper fall may be drift."""
    window: Annotated[int, Field(ge=3, le=200), Stricter.NEITHER] = 20
    """The last actions that are compared."""
    min_actions: Annotated[int, Field(ge=3, le=200), Stricter.LOWER] = 10
    """Actions required before there can be a finding."""
    measure: Annotated[Literal["overlap", "jaccard"], Stricter.NEITHER] = "jaccard"
    """The similarity: common words divided by those of the shorter text (`overlap`) or by all words (`jaccard`)."""

    def concerns(self, act: Observation) -> bool:
        """Attempts, and the goal."""
        if act.kind is _SESSION_STARTED:
            return act.event.task is not None and act.event.task.goal != ""
        return act.is_attempt and not act.refused

    def observe(self, state: GoalDriftState, act: Observation) -> Finding | None:
        """Record the goal, or the alignment of an action."""
        if act.kind is _SESSION_STARTED:
            if act.event.task is not None:
                _set_goals(state, _goals(act.event.task.goal))
                state.actions, state.alignments, state.told = [], [], False
            return None
        if state.goals:
            _set_goals(state, state.goals)
        if not state.sizes:
            return None
        words = _words(" ".join((act.action, *act.event.targets, _text_of(act.args)))[:_MAX_TEXT_CHARS])
        if len(words) < _MIN_WORDS:
            return None
        common = state.index.keys() & words
        alignment = round(self._alignment(state, common, len(words)), 6) if common else 0.0
        state.actions.append(entry(act))
        state.alignments.append(alignment)
        del state.actions[: -self.window], state.alignments[: -self.window]
        return self._look(state, act)

    def near(self, state: GoalDriftState) -> float:
        """The change of the alignment, relative to `change`."""
        if len(state.actions) < self.min_actions:
            return 0.0
        mean, change = _trend(state.alignments)
        return min(1.0, max(0.0, change / self.change)) if mean < self.mean else 0.0

    def _look(self, state: GoalDriftState, act: Observation) -> Finding | None:
        if len(state.actions) < self.min_actions:
            return None
        mean, change = _trend(state.alignments)
        if mean >= self.mean or change >= self.change:
            state.told = False
            return None
        if state.told:
            return None
        state.told = True
        return self.finding(
            "goal_drift",
            Severity.MEDIUM,
            f"the last {len(state.actions)} actions have {mean:.0%} of their words in common with the goal, with a"
            f" falling trend ({change:+.2f})",
            evidence(act, state.actions),
            confidence=1 - mean,
            values={"mean": round(mean, 3), "change": round(change, 3), "actions": len(state.actions)},
            thresholds=self.thresholds("mean", "change", "window"),
        )

    def _alignment(self, state: GoalDriftState, common: set[str], words: int) -> float:
        """The similarity to the most similar paragraph; `common`: words that are in any of them."""
        paragraphs = [state.index[word] for word in common]
        best = 0.0
        for number, size in enumerate(state.sizes):
            both = sum(bits >> number & 1 for bits in paragraphs) if len(state.sizes) > 1 else len(paragraphs)
            if both:
                best = max(best, both / (words + size - both if self.measure == "jaccard" else min(words, size)))
        return best


def _trend(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and the change along the least-squares line from the first value to the last."""
    n = len(values)
    if not any(values):
        return 0.0, 0.0
    return round(sum(values) / n, 9), round(sum(map(mul, _slope_weights(n), values)) * (n - 1), 9)


@lru_cache(maxsize=256)
def _slope_weights(n: int) -> tuple[float, ...]:
    """The weights of n values whose weighted sum is the slope of their least-squares line."""
    middle = (n - 1) / 2
    spread = sum((i - middle) ** 2 for i in range(n))
    return tuple((i - middle) / spread for i in range(n))


def _goals(goal: str) -> list[list[str]]:
    """The words of each paragraph, in order; those of the whole goal if no paragraph has enough."""
    goal = goal[:_MAX_GOAL_CHARS]
    parts = [
        sorted(words)[:_MAX_WORDS] for part in re.split(r"\n\s*\n", goal) if len(words := _words(part)) >= _MIN_WORDS
    ]
    return parts[:_MAX_GOALS] or ([sorted(words)] if (words := _words(goal)) else [])


def _set_goals(state: GoalDriftState, goals: list[list[str]]) -> None:
    state.goals, state.index, state.sizes = [], {}, [len(goal) for goal in goals]
    for number, goal in enumerate(goals):
        for word in goal:
            state.index[word] = state.index.get(word, 0) | 1 << number


def _words(text: str) -> frozenset[str]:
    return frozenset(map(str.lower, _WORD.findall(text))) - _COMMON


def _text_of(args: dict[str, Any] | None) -> str:
    if not args:
        return ""
    return " ".join(str(value)[:_MAX_TEXT_CHARS] for value in args.values() if isinstance(value, (str, int, list)))
