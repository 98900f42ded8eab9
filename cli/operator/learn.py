"""`haltline learn`: trains a model of `stagnation` from operators' labels, and measures what hints change."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from haltline.cli.audit_table import DEFAULT_TABLE, AuditTable, StorageOption, options_of
from haltline.cli.common import AsJson, Exit, PolicyFile, fail, print_json, say
from haltline.cli.policy_option import read_policy
from haltline.cli.tables import print_table

if TYPE_CHECKING:
    from haltline.schemas.policy import Policy
    from haltline.streams.audit.archive import Archive
    from haltline.streams.replay.backtest import Recorded

MAX_QUIET = 100
"""The most unlabelled sessions to learn from: more of them would outweigh the labels."""


def learn(
    *,
    out: Annotated[
        Path | None, typer.Option(help="File for the policy document with the model.", metavar="FILE")
    ] = None,
    table: AuditTable = DEFAULT_TABLE,
    storage_option: StorageOption = None,
    sessions: Annotated[
        list[Path] | None,
        typer.Option(
            help="A file of recorded sessions (.jsonl or .jsonl.gz): those marked as solved are sound; for the "
            "others, the report shows what would change. May be repeated.",
            metavar="FILE",
        ),
    ] = None,
    policy: PolicyFile = None,
    report: Annotated[Path | None, typer.Option(help="Write the report (Markdown).", metavar="FILE.md")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the calibration of both models.", metavar="FILE.svg")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sampling; the same labels and seed give the same model.")] = 1,
    promote: Annotated[
        Path | None,
        typer.Option(help="Train nothing: move this document's candidate to the rule stagnation.", metavar="CANDIDATE"),
    ] = None,
    effect: Annotated[
        bool, typer.Option("--effect", help="Train nothing: what the hints of the policy's experiment changed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model of the rule stagnation from your labels, on top of the one in force. Applies nothing.

    The labels are those of `haltline label` and `haltline missed` in the audit table, at least 5 sessions that ran away
    and 5 that did not; unlabelled sessions have little weight. Writes the policy with the model in the rule
    stagnation_candidate, in shadow: publish it, compare what both find, then use --promote and publish again. Exit 1
    when there are too few labels. Needs lightgbm and numpy, which the extra `learn` installs.

    Example: haltline learn --policy production.yaml --out candidate.yaml --report report.md --plot calibration.svg

    Example: haltline learn --promote candidate.yaml --out production.yaml

    Example: haltline learn --effect --json
    """
    if effect:
        _effect(table, storage_option, read_policy(policy), as_json=as_json)
        return
    out = _writable(out, report, plot)
    if promote is not None:
        _promote(promote, out, as_json=as_json)
        return
    _require_extra()
    from haltline.streams.audit.archive import Archive
    from haltline.streams.learning import candidate, comparing, labelled
    from haltline.streams.learning import report as reports

    in_force = read_policy(policy)
    archive = Archive(table, options_of(storage_option))
    labels = archive.labels()
    session_labels = labelled.labels_by_session(labels, archive.labelled())
    quiet = archive.quiet(MAX_QUIET, seed, besides=session_labels)
    known = _recorded(archive, sessions or (), {*session_labels, *quiet})
    lessons = labelled.lessons_of(known.values(), session_labels, quiet)
    if lacking := labelled.too_few(lessons):
        fail(f"audit table {table}: {lacking}", Exit.NO)
    examples = comparing.examples_of(lessons, in_force)
    words = labelled.counts_of(lessons)
    prior = comparing.prior_of(in_force)
    trained = reports.trained_of(
        words,
        [label.time for label in labels],
        table=table,
        steps=sum(len(example.steps.numbers) for example in examples),
        seed=seed,
    )
    others = [known[name] for name in sorted(known.keys() - {lesson.session_id for lesson in lessons})]
    try:
        model = comparing.learn(examples, prior, seed=seed, trained=trained)
        compared = comparing.compare(lessons, examples, others, in_force, model, seed=seed)
    except ValueError as error:
        fail(f"audit table {table}: {error}; sessions must hold calls with their results", Exit.NO)
    model = comparing.with_quality(model, compared)
    out.write_text(candidate.document(candidate.with_candidate(in_force, model)), encoding="utf-8")
    steps = _next_steps(out, policy, table)
    if report is not None:
        report.write_text(reports.markdown(model, prior, words, compared, steps), encoding="utf-8")
    if plot is not None:
        plot.write_text(reports.picture(model, prior, compared), encoding="utf-8")
    if as_json:
        print_json({**reports.to_dict(model, prior, words, compared), "next": [command for _, command in steps]})
        return
    before, after = compared.before, compared.after
    say(f"learned from {', '.join(f'{count} {word.value}' for word, count in words.items() if count)}")
    for name, of in ((f"{prior.name} {prior.version}", before), (f"{model.name} {model.version}", after)):
        say(
            f"{name}: {of.caught} of {of.runaways} runaways stopped, {of.early} of {of.located} early; "
            f"{of.false_stops} of {of.sound} sound sessions stopped; {of.quiet_stops} of {of.quiet} without a label"
        )
    say(f"{len(compared.differing)} of {len(compared.changes)} sessions differ")
    say(f"written: {', '.join(str(file) for file in (out, report, plot) if file is not None)}. Nothing is applied")
    if policy is None:
        say("it holds only the model: where a policy is published, give it with --policy (haltline policy show)")
    for what, command in steps:
        say(f"{what}: {command}")


def _recorded(archive: "Archive", files: Sequence[Path], names: set[str]) -> "dict[str, Recorded]":
    """By id: the sessions of the files, and those of the table with these names that no file contains."""
    from haltline.streams.replay.label_precision import recorded
    from haltline.streams.replay.traces import read_traces

    found: dict[str, Recorded] = {}
    for file in files:
        try:
            found |= {session.session_id: session for session in read_traces(file)}
        except OSError as error:
            fail(f"{file}: {error.strerror or error}", Exit.USAGE)
    of_table = archive.events_of(sorted(names - found.keys()))
    return found | {name: recorded(name, events) for name, events in of_table.items()}


def _next_steps(out: Path, policy: Path | None, table: str) -> list[tuple[str, str]]:
    """The operator's next steps, as commands."""
    preview = f"haltline backtest audit --table {table} --policy promoted.yaml"
    return [
        ("to see what it would do in force", f"haltline learn --promote {out} --out promoted.yaml"),
        ("and compare", preview + (f" --against {policy}" if policy is not None else "")),
        ("to try it in shadow", f"haltline policy publish {out} --by NAME --reason TEXT"),
        ("to see what it finds there", "haltline tail --topic detections"),
        ("to put it in force then", "haltline policy publish promoted.yaml --by NAME --reason TEXT"),
    ]


def _writable(out: Path | None, report: Path | None, plot: Path | None) -> Path:
    """Return the file for the document, once all files can be written."""
    for option, file, suffix in (("--out", out, ""), ("--report", report, ".md"), ("--plot", plot, ".svg")):
        if file is not None and (file.suffix != (suffix or file.suffix) or not file.parent.is_dir()):
            fail(f"{option}: expected a file *{suffix} in a folder that exists, got {file}", Exit.USAGE)
    if out is None:
        fail("--out: expected a file, got none", Exit.USAGE)
    return out


def _effect(table: str, storage_option: list[str] | None, policy: "Policy", *, as_json: bool) -> None:
    """Print what the hints of experiments changed, by rule; exit 1 without any."""
    from haltline.streams.audit.archive import Archive
    from haltline.streams.learning.effect import effects_of

    archive = Archive(table, options_of(storage_option))
    decisions = archive.tried()
    events = archive.events_of(sorted({one.session_id for one in decisions}))
    found = effects_of(decisions, events, policy)
    if not found:
        fail(f"audit table {table}: expected hints of a policy's experiment, got none", Exit.NO)
    if as_json:
        print_json({"rules": [one.to_dict() for one in found]})
        return
    for one in found:
        say(f"hints of {one.rule}, told less silent with its 95 % interval:", style="bold")
        rows = [
            (
                of.what,
                *(
                    f"{_figure(value)} of {count}"
                    for value, count in ((of.told, of.told_of), (of.silent, of.silent_of))
                ),
                _figure(of.difference, sign="+"),
                "-" if of.low is None else f"{_figure(of.low, sign='+')} to {_figure(of.high, sign='+')}",
            )
            for of in one.measures
        ]
        print_table(("measure", "told", "silent", "difference", "interval"), rows)


def _figure(value: float | None, *, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}.2f}"


def _promote(file: Path, out: Path, *, as_json: bool) -> None:
    from haltline.streams.learning import candidate

    try:
        promoted = candidate.promoted(read_policy(file))
    except ValueError as error:
        fail(f"{file}: {error}", Exit.USAGE)
    out.write_text(candidate.document(promoted), encoding="utf-8")
    command = f"haltline policy publish {out} --by NAME --reason TEXT"
    if as_json:
        print_json({"written": str(out), "next": [command]})
    else:
        say(f"written: {out}. Nothing is applied; to put it in force: {command}")


def _require_extra() -> None:
    """Import the extra's packages before the table is read."""
    try:
        import lightgbm  # noqa: F401  # whether it can be imported
        import numpy  # noqa: F401  # whether it can be imported
    except OSError as error:  # from a native dependency such as OpenMP, which a slim image lacks
        fail(f"learn: expected that lightgbm can be loaded, got {error}", Exit.USAGE)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(learn)
