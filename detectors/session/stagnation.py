"""The session's steps produce nothing new.

Fires: `stagnation` when an additive model scores the progress of the session (`novelty`) at `hint_at` or more in
    `hint_steps` steps in a row (medium), at `firm_at` in as many (high), or at `pause_at` in `pause_steps` (critical).
    The score is a sum of points by feature, in log odds; the reason names the features that add the most, and the
    values hold the points of each feature. The model records its training data and its quality.
    Regardless of the score: when `known_hint` steps got next to nothing new in whole results (medium), or `known_pause`
    (critical), without an edit of a file or an external effect since (`whole_results`). Steps with new results count
    against it.
Quiet: an edit-and-test cycle, beyond warnings, while fewer than `known_stop` steps without an edit or a new result lie
    behind, and without warnings too if two thirds of the last calls changed something or had another result than ever
    before; repeated lookups; much reading; fewer than `least_steps` steps. The model was trained on recorded sessions
    of coding, security and office agents: fleets with other work should train their own model (`haltline learn`).
Misses: sessions without published results; work on invented data whose results look new (`invented_data`); a step that
    is wrong but new.
"""

from typing import Annotated, ClassVar

from msgspec import field
from pydantic import Field, model_validator

from haltline.detectors.features.additive_model import Model, shipped
from haltline.detectors.features.call_history import CHANGE, NEWS
from haltline.detectors.features.novelty import VALUES
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.features.whole_results import MAX_STEPS
from haltline.detectors.framework.base import Detector, settings
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import Entry, entry, evidence
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.stored import Stored

SHIPPED = shipped("stagnation")
_REASONS = 3
"""Features named in a reason."""
_EVIDENCE = 8
_LAST_CALLS = 12
"""Calls of which most must have got on."""
_FLOOR = -6.0
"""The score at which `near` starts: most steps of normal sessions are below it."""

_Score = Annotated[float, Field(ge=-20, le=40), Stricter.LOWER]
_Steps = Annotated[int, Field(ge=1, le=20), Stricter.LOWER]


class StagnationState(Stored):
    """The latest scores."""

    scores: list[float] = field(default_factory=list)
    rows: list[Entry] = field(default_factory=list)
    """The latest steps with a score of `hint_at` or more."""


@settings
class Stagnation(Detector[StagnationState]):
    """A high score for lack of progress, several steps in a row."""

    id: ClassVar[str] = "stagnation"
    sees: ClassVar[Trait] = Trait.DONE
    recalls: ClassVar[bool] = True
    measures: ClassVar[bool] = True
    ascending: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("hint_at", "firm_at", "pause_at"),
        ("known_hint", "known_pause"),
    )

    hint_at: _Score = 1.2
    """The lowest score at which a step counts for a medium finding."""
    firm_at: _Score = 1.8
    """The lowest score at which a step counts for a high finding."""
    pause_at: _Score = 2.6
    """The lowest score at which a step counts for a critical finding."""
    hint_steps: _Steps = 1
    """Steps in a row for a medium or high finding."""
    pause_steps: _Steps = 1
    """Steps in a row for a critical finding."""
    least_steps: Annotated[int, Field(ge=1, le=100), Stricter.LOWER] = 4
    """Steps before which the score is ignored."""
    known_hint: Annotated[int, Field(ge=4, le=MAX_STEPS), Stricter.LOWER] = 24
    """Steps with no new results and no edits, for a medium finding."""
    known_pause: Annotated[int, Field(ge=4, le=MAX_STEPS), Stricter.LOWER] = 31
    """Steps with no new results and no edits, for a critical finding."""
    known_stop: Annotated[int, Field(ge=0, le=MAX_STEPS), Stricter.LOWER] = 4
    """The least of these steps for a critical finding by the score, where whole results are counted."""
    model: Annotated[Model, Stricter.NEITHER] = SHIPPED
    """Points by feature; by default the model of this release."""

    @model_validator(mode="after")
    def _usable(self) -> "Stagnation":
        names = tuple(feature.name for feature in self.model.features)
        if names != tuple(value.name for value in VALUES):
            raise ValueError(f"a model of {', '.join(value.name for value in VALUES)}; got {', '.join(names)}")
        return self

    def observe(self, state: StagnationState, act: Observation) -> Finding | None:
        """Score the step, together with the ones before it."""
        values = act.novelty
        if values is None:
            return None
        score = round(self.model.score(values), 3)
        scores = state.scores
        measure = act.calls.novelty
        if measure.steps == 1:  # a new task
            scores.clear()
        scores.append(score)
        if len(scores) > max(self.hint_steps, self.pause_steps):
            del scores[0]
        known = measure.whole.steps
        if (score < self.hint_at or measure.steps < self.least_steps) and known < self.known_hint:
            return None
        if known < self.known_stop and act.event.output_novelty is not None and _gets_on(act):
            return None
        state.rows.append(entry(act))
        del state.rows[:-_EVIDENCE]
        severity = self._severity(scores) if measure.steps >= self.least_steps else None
        if severity is Severity.CRITICAL and known < self.known_stop and act.event.output_novelty is not None:
            severity = Severity.HIGH  # it edits, or gets something new: its score is of the errors on the way
        if known >= self.known_hint and severity is not Severity.CRITICAL:
            by_results = Severity.CRITICAL if known >= self.known_pause else Severity.MEDIUM
            if severity is None or by_results > severity:
                return self._known(act, state, known, by_results)
        if severity is None:
            return None
        points = self.model.points(values)
        return self.finding(
            "stagnation",
            severity,
            f"the last steps produced nothing new (score {score:.1f}): {self._reasons(values, points)}",
            evidence(act, state.rows),
            confidence=min(1.0, 1 / (1 + 2.718 ** -max(-20.0, min(20.0, score)))),
            values={
                "score": score,
                "base": self.model.base,
                **{feature.name: round(p, 2) for feature, p in zip(self.model.features, points, strict=True)},
            },
            thresholds=self.thresholds("hint_at", "firm_at", "pause_at", "pause_steps")
            | {"model": f"{self.model.name} {self.model.version}"},
        )

    def _known(self, act: Observation, state: StagnationState, known: float, severity: Severity) -> Finding:
        """The finding from whole results, regardless of the score."""
        return self.finding(
            "stagnation",
            severity,
            f"{known:.0f} steps got next to nothing new in their whole results, and nothing was edited since",
            evidence(act, state.rows),
            confidence=min(1.0, known / self.known_pause),
            values={"known_steps": known},
            thresholds=self.thresholds("known_hint", "known_pause"),
        )

    def near(self, state: StagnationState) -> float:
        """The position of the last score between most steps' and `pause_at`."""
        if not state.scores:
            return 0.0
        return min(1.0, max(0.0, (state.scores[-1] - _FLOOR) / max(1.0, self.pause_at - _FLOOR)))

    def _severity(self, scores: list[float]) -> Severity | None:
        if len(scores) >= self.pause_steps and min(scores[-self.pause_steps :]) >= self.pause_at:
            return Severity.CRITICAL
        if len(scores) < self.hint_steps:
            return None
        least = min(scores[-self.hint_steps :])
        if least >= self.firm_at:
            return Severity.HIGH
        return Severity.MEDIUM if least >= self.hint_at else None

    def _reasons(self, values: tuple[float, ...], points: list[float]) -> str:
        """The features that add the most to the score, in words."""
        gains = [p - feature.least for feature, p in zip(self.model.features, points, strict=True)]
        most = sorted(range(len(gains)), key=lambda i: -gains[i])[:_REASONS]
        return "; ".join(VALUES[i].words.format(values[i]) for i in most if gains[i] > 0)


def _gets_on(act: Observation) -> bool:
    """Return whether two thirds of the last calls changed something, or had another result than ever before."""
    last = act.calls.recall.trail[-_LAST_CALLS:]
    return 3 * sum(call[-1] in (NEWS, CHANGE) for call in last) >= 2 * len(last) > 0
