"""The comparison of a learned model with the one before it, on sessions that it was not trained on."""

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
from haltline.streams.learning.fit import fit
from haltline.streams.learning.labelled import Lesson, Word
from haltline.streams.learning.steps import Steps, steps_of
from haltline.streams.replay.backtest import Recorded, Result, backtest, only
from haltline.streams.replay.whatif import SAME, change_of

RULE = Stagnation.id
ROUNDS = 60
"""The number of splits added to the prior: few, because few sessions are labelled."""
FOLDS = 5
EARLY = 5
"""The number of events after the signal within which a stop is early."""
BINS = 10


@dataclass(frozen=True, slots=True)
class Change:
    """One session under both models."""

    session_id: str
    word: str
    """Its label; empty: none."""
    before: Result
    after: Result

    @property
    def what(self) -> str:
        """The change of its first stop: `same`, `appears`, `vanishes` or `moves`."""
        return change_of(self.after, self.before)


@dataclass(slots=True)
class Counts:
    """The counts of one model in labelled sessions."""

    runaways: int = 0
    sound: int = 0
    located: int = 0
    """Runaways with a known place."""
    quiet: int = 0
    """Unlabelled sessions."""
    caught: int = 0
    """Runaways that it stops after their beginning."""
    early: int = 0
    """Those with a known place: stopped at most `EARLY` events after the signal."""
    too_soon: int = 0
    """Runaways that it stops before they begin."""
    false_stops: int = 0
    """Sound sessions that it stops."""
    warned: int = 0
    """Runaways in which it finds anything."""
    early_warned: int = 0
    """Those with a known place: found within the same limit."""
    false_hints: int = 0
    """Sound sessions in which it finds anything."""
    quiet_stops: int = 0
    quiet_hints: int = 0

    @property
    def precision(self) -> float | None:
        """The part of the stopped labelled sessions that were runaways by then; None: it stops none."""
        stops = self.caught + self.too_soon + self.false_stops
        return self.caught / stops if stops else None

    @property
    def recall(self) -> float | None:
        """The part of the runaways that it stops; None: there are none."""
        return self.caught / self.runaways if self.runaways else None


@dataclass(slots=True)
class Calibration:
    """The observed share of fruitless steps by bin of the predicted one; steps count by weight."""

    weights: list[float] = field(default_factory=lambda: [0.0] * BINS)
    predicted: list[float] = field(default_factory=lambda: [0.0] * BINS)
    fruitless: list[float] = field(default_factory=lambda: [0.0] * BINS)
    squares: float = 0.0

    def add(self, score: float, fruitless: float, weight: float) -> None:
        """Add a step."""
        share = 1 / (1 + exp(-max(-30.0, min(30.0, score))))
        number = min(BINS - 1, int(share * BINS))
        self.weights[number] += weight
        self.predicted[number] += weight * share
        self.fruitless[number] += weight * fruitless
        self.squares += weight * (share - fruitless) ** 2

    @property
    def brier(self) -> float:
        """The mean squared difference (Brier score): 0 is best; a constant prediction of one half gives 0.25."""
        return self.squares / (sum(self.weights) or 1.0)

    @property
    def rows(self) -> list[tuple[int, float, float, float]]:
        """Return number, share of steps, mean prediction and observation of each bin with steps."""
        total = sum(self.weights)
        return [
            (n, weight / total, self.predicted[n] / weight, self.fruitless[n] / weight)
            for n, weight in enumerate(self.weights)
            if weight
        ]


@dataclass(frozen=True, slots=True)
class Compared:
    """The previous and the learned model."""

    before: Counts
    after: Counts
    calibration_before: Calibration
    calibration_after: Calibration
    changes: tuple[Change, ...]
    """Every session, ordered by id."""

    @property
    def differing(self) -> list[Change]:
        """Return the sessions that differ."""
        return [change for change in self.changes if change.what != SAME]


def examples_of(lessons: Sequence[Lesson], policy: Policy) -> list[Example]:
    """Return the steps of each session, measured under the policy's tools, with their weights."""
    return [
        _example(lesson, steps)
        for lesson, steps in zip(lessons, steps_of((one.session for one in lessons), policy), strict=True)
    ]


def learn(examples: Sequence[Example], prior: Model, *, seed: int, trained: Values | None = None) -> Model:
    """Return the prior, extended by these sessions. Raises ValueError if their steps are of one kind only."""
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
    """Compare both models in every session alone; labelled sessions get a model that was not trained on them.

    `others` are unlabelled sessions, for changes by the learned model.
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
    """Return, by session, the one of `FOLDS` that leaves it out; each fold has its part of the runaways."""
    found: dict[str, int] = {}
    for kind in ("runaway", "labelled sound", "quiet"):
        ids = [one.session_id for one in lessons if _kind(one) == kind]
        ids.sort(key=lambda name: blake2b(f"{seed} {name}".encode(errors="surrogatepass"), digest_size=8).digest())
        found |= {name: number % FOLDS for number, name in enumerate(ids)}
    return found


def prior_of(policy: Policy) -> Model:
    """Return the model of the policy's rule: its own, or this release's."""
    model = policy.rules.get(RULE, Rule()).settings.get("model")
    return SHIPPED if model is None else TypeAdapter(Model).validate_python(model)


def alone(policy: Policy, model: Model) -> Policy:
    """Return the policy with only `stagnation`, enforced, with this model: another rule could stop earlier."""
    rule = policy.rules.get(RULE, Rule())
    settings = rule.settings | {"model": TypeAdapter(Model).dump_python(model, mode="json")}
    enforced = rule.model_copy(update={"enabled": True, "mode": Mode.ENFORCE, "settings": settings})
    return only(policy, {RULE: enforced}, interventions=None)


def with_quality(model: Model, compared: Compared) -> Model:
    """Return the model with its measured quality."""
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
        for score, one, weight in zip(map(scored.score, rows), fruitless[used], weights[used], strict=True):
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
    """Return, by changed feature, how the points moved, by bins of either model; the largest change first."""
    found = []
    for old, new in zip(before.features, after.features, strict=True):
        edges = sorted({*old.edges, *new.edges})
        moved = {f"up to {edge:g}": round(new.of(edge) - old.of(edge), 3) for edge in edges}
        moved["above" if edges else "any"] = round(new.points[-1] - old.points[-1], 3)
        if any(moved.values()):
            found.append((old.name, moved))
    return sorted(found, key=lambda one: -max(abs(points) for points in one[1].values()))
