"""The report on a learned model for the operator who decides: as Markdown, as a picture, and as plain values. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from haltline.detectors.features.additive_model import Model
from haltline.schemas.record import rfc3339
from haltline.streams.learning.comparing import BINS, EARLY, FOLDS, Calibration, Change, Compared, Counts, models_differ
from haltline.streams.learning.labelled import LASTS, LEADS, Word
from haltline.streams.replay.backtest import Result
from haltline.streams.replay.curves import curves

_SHOWN = 100
_MOVED = 8
"""The most shown bins of one feature: those that moved the most."""

_LEARNED_FROM = (
    f"A confirmed decision is the signal of its session: the {LEADS} events before it, and what comes more than "
    f"{LASTS} events after the last one, count for nothing. Of a missed session the last third counts, with little "
    "weight. Labels are of what some rule found or somebody noticed: recall is of the runaways that are known."
)
_HOW_WELL = (
    f"Each session under a model that was learned without it: it is left out with one of {FOLDS} parts of the "
    "sessions. The rule runs by itself, enforced."
)
_MEASURES = (
    "precision of stops",
    "recall",
    "runaways stopped",
    f"runaways stopped early (by {EARLY} events after the signal)",
    "runaways stopped before they began",
    "runaways with any intervention",
    "runaways with any intervention early",
    "sound sessions stopped",
    "sound sessions with any intervention",
    "sessions without a label stopped",
    "sessions without a label with any intervention",
)
_CALIBRATED = (
    "Steps by the probability that the score says, and the part of them that was fruitless; steps count by their "
    "weight. Brier score (0 is best): {0} {2:.4f}, {1} {3:.4f}."
)


def markdown(
    model: Model, prior: Model, words: Mapping[Word, int], compared: Compared, next_steps: Sequence[tuple[str, str]]
) -> str:
    """Return the whole report."""
    before, after = compared.before, compared.after
    names = f"{prior.name} {prior.version}", f"{model.name} {model.version}"
    parts = [
        f"# Model {names[1]} of the rule `stagnation`",
        f"Learned on top of `{names[0]}` from sessions that operators labelled. Nothing of it is in force.",
        "## Learned from",
        _table(("sessions", "count"), [(_WORDS[word], str(count)) for word, count in words.items()]),
        _LEARNED_FROM,
        _table(("trained", ""), [(name, str(value)) for name, value in model.trained.items()]),
        "## How well",
        _HOW_WELL,
        _table(("", *names), _quality(before, after)),
        "## Calibration",
        _CALIBRATED.format(*names, compared.calibration_before.brier, compared.calibration_after.brier),
        _table(
            ("predicted", f"steps ({names[0]})", "observed", f"steps ({names[1]})", "observed"),
            _calibration(compared.calibration_before, compared.calibration_after),
        ),
        "## Sessions that differ",
        *_changes(compared.differing, len(compared.changes)),
        "## Points that changed",
        "Log odds that a value adds to the score now, less what it added before.",
        _table(("feature", "change by value"), _moved(prior, model)),
        "## Next",
        *[f"{what}:\n\n    {command}" for what, command in next_steps],
    ]
    return "\n\n".join(parts) + "\n"


def picture(model: Model, prior: Model, compared: Compared) -> str:
    """Return the calibration of both models as SVG: observed over predicted fruitless steps, in percent."""
    middles = [100 * (number + 0.5) / BINS for number in range(BINS)]
    lines = {"as predicted": [(middle, middle) for middle in middles]}
    for of, calibration in ((prior, compared.calibration_before), (model, compared.calibration_after)):
        lines[f"{of.name} {of.version}"] = [(middles[n], 100 * observed) for n, _, _, observed in calibration.rows]
    title = "Fruitless steps, predicted and observed (models that have not seen the session)"
    return curves(title, "predicted, %", "observed, %", lines)


def to_dict(model: Model, prior: Model, words: Mapping[Word, int], compared: Compared) -> dict[str, Any]:
    """Return the numbers of the report, for scripts."""
    return {
        "model": f"{model.name} {model.version}",
        "prior": f"{prior.name} {prior.version}",
        "sessions": {word.value: count for word, count in words.items()},
        "quality": {
            name: {
                "precision": of.precision,
                "recall": of.recall,
                "runaways": of.runaways,
                "caught": of.caught,
                "early": of.early,
                "early_told": of.early_warned,
                "too_soon": of.too_soon,
                "sound": of.sound,
                "false_stops": of.false_stops,
                "quiet": of.quiet,
                "quiet_stops": of.quiet_stops,
                "brier": round(calibration.brier, 6),
            }
            for name, of, calibration in (
                ("prior", compared.before, compared.calibration_before),
                ("learned", compared.after, compared.calibration_after),
            )
        },
        "changes": [
            {
                "session_id": change.session_id,
                "known": change.word,
                "change": change.what,
                "before": story(change.before),
                "after": story(change.after),
            }
            for change in compared.differing
        ],
    }


def story(result: Result) -> str:
    """Return the outcome of a session: `PAUSE at 14`, or the highest level without a stop."""
    return result.level if result.first is None else f"{result.first.level} at {result.first.seq}"


def trained_of(words: Mapping[Word, int], times: Sequence[int], *, table: str, steps: int, seed: int) -> dict[str, Any]:
    """Return the model's description of its training data; `times` are those of the labels."""
    return {
        "on": f"labels of operators in {table}",
        "first_label": rfc3339(min(times)) if times else "-",
        "last_label": rfc3339(max(times)) if times else "-",
        **{word.value: count for word, count in words.items()},
        "steps": steps,
        "seed": seed,
    }


_WORDS = {
    Word.CONFIRMED: "runaways: a decision was confirmed",
    Word.MISSED: "runaways that a rule missed",
    Word.FALSE_ALARM: "sound: a decision was a false alarm",
    Word.SOLVED: "sound: the recording says that it reached its goal",
    Word.QUIET: "taken for sound: nobody labelled them, no rule came to a pause",
}


def _quality(before: Counts, after: Counts) -> list[tuple[str, ...]]:
    columns = [
        (
            _share(of.precision),
            _share(of.recall),
            f"{of.caught} of {of.runaways}",
            f"{of.early} of {of.located}",
            f"{of.too_soon} of {of.runaways}",
            f"{of.warned} of {of.runaways}",
            f"{of.early_warned} of {of.located}",
            f"{of.false_stops} of {of.sound}",
            f"{of.false_hints} of {of.sound}",
            f"{of.quiet_stops} of {of.quiet}",
            f"{of.quiet_hints} of {of.quiet}",
        )
        for of in (before, after)
    ]
    return list(zip(_MEASURES, *columns, strict=True))


def _calibration(before: Calibration, after: Calibration) -> list[tuple[str, ...]]:
    bins = [
        {number: (f"{part:.1%}", _share(observed)) for number, part, _, observed in of.rows} for of in (before, after)
    ]
    none = ("-", "-")
    return [
        (f"{100 * n // BINS} to {100 * (n + 1) // BINS} %", *bins[0].get(n, none), *bins[1].get(n, none))
        for n in range(BINS)
        if n in bins[0] or n in bins[1]
    ]


def _changes(differing: Sequence[Change], of: int) -> list[str]:
    parts = [f"{len(differing)} of {of}: their first stop appears, vanishes, or moves to another place or level."]
    if differing:
        rows = [
            (one.session_id, one.word or "-", story(one.before), story(one.after), one.what)
            for one in differing[:_SHOWN]
        ]
        parts.append(_table(("session", "known", "before", "now", "first stop"), rows))
    if len(differing) > _SHOWN:
        parts.append(f"And {len(differing) - _SHOWN} more; --json has all.")
    return parts


def _moved(prior: Model, model: Model) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, moved in models_differ(prior, model):
        most = sorted(moved, key=lambda place: -abs(moved[place]))[:_MOVED]
        rows.append((name, ", ".join(f"{place}: {moved[place]:+.2f}" for place in moved if place in most)))
    return rows


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    """Return a table cell in one line, with any session's name."""
    shown = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
    return shown.replace("|", "\\|").replace("<", "&lt;")
