"""What a learned model would have done with sessions that it was not learned from, beside the one before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from math import exp

import numpy as np
from pydantic import TypeAdapter

from haltline.detectors.features.additive_model import Model
from haltline.detectors.session.stagnation import SHIPPED, Stagnation
from haltline.schemas.decisions import Level, Mode
from haltline.schemas.policy import Policy, Rule
from haltline.schemas.record import Values
from haltline.streams.engine.core import Core
from haltline.streams.learning.examples import Example, arrays
from haltline.streams.learning.fit import fit, scores_of
from haltline.streams.learning.labelled import Lesson, Word
from haltline.streams.learning.steps import Steps, steps_of
from haltline.streams.replay.backtest import Recorded, Result, backtest, only
from haltline.streams.replay.whatif import SAME, change_of

RULE = Stagnation.id
ROUNDS = 60
"""Splits on top of the prior: few, as few sessions are labelled."""
FOLDS = 5
EARLY = 5
"""Events after the signal within which a stop is early."""
BINS = 10


@dataclass(frozen=True, slots=True)
class Change:
    """One session under both models."""

    session_id: str
    word: str
    """What is known of it; empty: nothing."""
    before: Result
    after: Result

    @property
    def what(self) -> str:
        """`same`, `appears`, `vanishes` or `moves`: what becomes of its first stop."""
        return change_of(self.after, self.before)


@dataclass(slots=True)
class Counts:
    """How one model did in sessions that are labelled."""

    runaways: int = 0
    sound: int = 0
    located: int = 0
    """Runaways of which the place is known."""
    quiet: int = 0
    """Sessions that nobody labelled."""
    caught: int = 0
    """Runaways that it stops, from where they begin."""
    early: int = 0
    """Of those whose place is known: no more than `EARLY` events after the signal."""
    too_soon: int = 0
    """Runaways that it stops before they begin."""
    false_stops: int = 0
    """Sound sessions that it stops."""
    warned: int = 0
    """Runaways in which it says anything."""
    early_warned: int = 0
    """Of those whose place is known: the same, by then."""
    false_hints: int = 0
    """Sound sessions in which it says anything."""
    quiet_stops: int = 0
    quiet_hints: int = 0

    @property
    def precision(self) -> float | None:
        """Of the labelled sessions that it stops, the part that ran away by then; None: it stops none."""
        stops = self.caught + self.too_soon + self.false_stops
        return self.caught / stops if stops else None

    @property
    def recall(self) -> float | None:
        """Of the runaways, the part that it stops; None: there is none."""
        return self.caught / self.runaways if self.runaways else None


@dataclass(slots=True)
class Calibration:
    """How often steps of a score were fruitless, by bin of what the score predicts; steps count by their weight."""

    weights: list[float] = field(default_factory=lambda: [0.0] * BINS)
    predicted: list[float] = field(default_factory=lambda: [0.0] * BINS)
    fruitless: list[float] = field(default_factory=lambda: [0.0] * BINS)
    squares: float = 0.0

    def add(self, score: float, fruitless: float, weight: float) -> None:
        """Counts a step."""
        share = 1 / (1 + exp(-max(-30.0, min(30.0, score))))
        number = min(BINS - 1, int(share * BINS))
        self.weights[number] += weight
        self.predicted[number] += weight * share
        self.fruitless[number] += weight * fruitless
        self.squares += weight * (share - fruitless) ** 2

    @property
    def brier(self) -> float:
        """The mean squared difference: 0 is best; 0.25 is what always predicting a half gives."""
        return self.squares / (sum(self.weights) or 1.0)

    @property
    def rows(self) -> list[tuple[int, float, float, float]]:
        """Of each bin with steps: its number, part of the steps, mean of what is predicted, and what was observed."""
        total = sum(self.weights)
        return [
            (n, weight / total, self.predicted[n] / weight, self.fruitless[n] / weight)
            for n, weight in enumerate(self.weights)
            if weight
        ]


@dataclass(frozen=True, slots=True)
class Compared:
    """The model before and the learned one."""

    before: Counts
    after: Counts
    calibration_before: Calibration
    calibration_after: Calibration
    changes: tuple[Change, ...]
    """Every session, in the order of their ids."""

    @property
    def differing(self) -> list[Change]:
        """The sessions that differ."""
        return [change for change in self.changes if change.what != SAME]


def examples_of(lessons: Sequence[Lesson], policy: Policy) -> list[Example]:
    """The steps of each session, measured under the policy's tools, and how much each counts."""
    return [
        _example(lesson, steps)
        for lesson, steps in zip(lessons, steps_of((one.session for one in lessons), policy), strict=True)
    ]


def learn(examples: Sequence[Example], prior: Model, *, seed: int, trained: Values | None = None) -> Model:
    """The prior, and what these sessions add to it. Raises ValueError: they have steps of one kind only."""
    version = prior.version + 1
    return fit(
        *arrays(examples), seed=seed, name="learned", version=version, trained=trained, prior=prior, rounds=ROUNDS
    )


def compare(
    lessons: Sequence[Lesson],
    examples: Sequence[Example],
    others: Sequence[Recorded],
    policy: Policy,
    learned: Model,
    *,
    seed: int,
) -> Compared:
    """Both models in every session by themselves: of the labelled ones a model that has not seen them.

    `others` are sessions of which nothing is known: what the learned model changes in them.
    """
    prior = prior_of(policy)
    before = Core(alone(policy, prior))
    counts = Counts(), Counts()
    calibrations = Calibration(), Calibration()
    changes = []
    fold_of = folds(lessons, seed)
    for fold in range(FOLDS):
        inside = [n for n, lesson in enumerate(lessons) if fold_of[lesson.session_id] == fold]
        if not inside:
            continue
        outside = [examples[n] for n in range(len(lessons)) if fold_of[lessons[n].session_id] != fold]
        model = learn(outside, prior, seed=seed)
        after = Core(alone(policy, model))
        for lesson in (lessons[n] for n in inside):
            results = backtest(before, lesson.session), backtest(after, lesson.session)
            for of, result in zip(counts, results, strict=True):
                _count(of, lesson, result)
            changes.append(Change(lesson.session_id, lesson.word.value, *results))
        _calibrate(calibrations, [examples[n] for n in inside], prior, model)
    with_learned = Core(alone(policy, learned))
    changes += [Change(s.session_id, "", backtest(before, s), backtest(with_learned, s)) for s in others]
    return Compared(*counts, *calibrations, tuple(sorted(changes, key=lambda one: one.session_id)))


def folds(lessons: Sequence[Lesson], seed: int) -> dict[str, int]:
    """By session: which of `FOLDS` it is left out with; each has its part of the runaways."""
    found: dict[str, int] = {}
    for kind in ("runaway", "labelled sound", "quiet"):
        ids = [one.session_id for one in lessons if _kind(one) == kind]
        ids.sort(key=lambda name: blake2b(f"{seed} {name}".encode(errors="surrogatepass"), digest_size=8).digest())
        found |= {name: number % FOLDS for number, name in enumerate(ids)}
    return found


def prior_of(policy: Policy) -> Model:
    """The model that the policy's rule has: its own, or that of this release."""
    model = policy.rules.get(RULE, Rule()).settings.get("model")
    return SHIPPED if model is None else TypeAdapter(Model).validate_python(model)


def alone(policy: Policy, model: Model) -> Policy:
    """The policy with `stagnation` only, enforced, with this model: another rule's stop would come before its own."""
    rule = policy.rules.get(RULE, Rule())
    settings = rule.settings | {"model": TypeAdapter(Model).dump_python(model, mode="json")}
    enforced = rule.model_copy(update={"enabled": True, "mode": Mode.ENFORCE, "settings": settings})
    return only(policy, {RULE: enforced}, interventions=None)


def with_quality(model: Model, compared: Compared) -> Model:
    """The model, with how well it did."""
    with_labels: Values = {}
    for name, of in (("prior", compared.before), ("learned", compared.after)):
        with_labels |= {
            f"{name}: runaways stopped": f"{of.caught} of {of.runaways}",
            f"{name}: stopped within {EARLY} events of the signal": f"{of.early} of {of.located}",
            f"{name}: sound sessions stopped": f"{of.false_stops} of {of.sound}",
        }
    return replace(model, quality=with_labels)


def _kind(lesson: Lesson) -> str:
    if lesson.word.runaway:
        return "runaway"
    return "quiet" if lesson.word is Word.QUIET else "labelled sound"


def _example(lesson: Lesson, steps: Steps) -> Example:
    return Example(steps, lesson.span, lesson.sound_weight, lesson.runaway_weight)


def _calibrate(
    calibrations: tuple[Calibration, Calibration], examples: Sequence[Example], prior: Model, model: Model
) -> None:
    values, fruitless, weights = arrays(examples)
    used = np.flatnonzero(weights > 0)
    rows = [tuple(row) for row in values[used].tolist()]
    for calibration, scored in zip(calibrations, (prior, model), strict=True):
        for score, one, weight in zip(scores_of(scored, rows), fruitless[used], weights[used], strict=True):
            calibration.add(score, float(one), float(weight))


def _count(of: Counts, lesson: Lesson, result: Result) -> None:
    first = next((decision.seq for decision in result.decisions if Level(decision.level) > Level.ALLOW), None)
    stop = None if result.first is None else result.first.seq
    if lesson.word is Word.QUIET:
        of.quiet += 1
        of.quiet_stops += stop is not None
        of.quiet_hints += first is not None
    elif lesson.span is None:
        of.sound += 1
        of.false_stops += stop is not None
        of.false_hints += first is not None
    else:
        located = lesson.word is Word.CONFIRMED
        of.runaways += 1
        of.located += located
        of.warned += first is not None
        of.early_warned += located and first is not None and first <= lesson.span.signal + EARLY
        of.too_soon += stop is not None and stop < lesson.span.begins
        of.caught += stop is not None and stop >= lesson.span.begins
        of.early += located and stop is not None and lesson.span.begins <= stop <= lesson.span.signal + EARLY


def models_differ(before: Model, after: Model) -> list[tuple[str, Mapping[str, float]]]:
    """By feature that changed, how the points moved, by bins of either model; the largest change first."""
    found = []
    for old, new in zip(before.features, after.features, strict=True):
        edges = sorted({*old.edges, *new.edges})
        moved = {f"up to {edge:g}": round(new.of(edge) - old.of(edge), 3) for edge in edges}
        moved["above" if edges else "any"] = round(new.points[-1] - old.points[-1], 3)
        if any(moved.values()):
            found.append((old.name, moved))
    return sorted(found, key=lambda one: -max(abs(points) for points in one[1].values()))
