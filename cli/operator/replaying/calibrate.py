"""`haltline calibrate`: sets thresholds of the rules of judgement by a budget for false stops."""

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from haltline.cli.audit_table import options_of
from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, Exit, PolicyFile, UsageErrors, fail, option_of, print_json, say, tracked
from haltline.cli.operator.replaying.backtest import read
from haltline.cli.policy_option import read_plugins, read_policy
from haltline.cli.sources import AUDIT, Where, with_source
from haltline.cli.tables import print_table

if TYPE_CHECKING:
    from haltline.schemas.decisions import Decision
    from haltline.streams.audit.archive import Archive
    from haltline.streams.learning.calibrating import Calibration, Stop
    from haltline.streams.operator.client import Operator

_COUNTED = ("fine", "fine_proposed", "runaways", "runaways_proposed")
"""The JSON names of a rule's counts."""


def _budget(text: str) -> Fraction:
    try:
        share = Fraction(text)
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not 0 < share < 1:
        raise typer.BadParameter(f"expected a share such as 1/500, got {text!r}")
    return share


@with_source
@with_cluster("group", "timeout")
def calibrate(
    *,
    budget: Annotated[
        Fraction,
        typer.Option(
            parser=_budget,
            help="Maximum share of fine sessions that are stopped: 1/500 is one in 500.",
            metavar="SHARE",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write the proposed policy document.", metavar="FILE", show_default=False)
    ] = None,
    sessions: Annotated[
        list[Path] | None,
        typer.Option(
            help="Recorded sessions (.jsonl, .jsonl.gz), not the audit table; may be repeated.", metavar="FILE"
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="The labels.jsonl of a page of `haltline scan --html`: which of the sessions went wrong.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    policy: PolicyFile = None,
    examples: Annotated[int, typer.Option(help="Number of stops to judge that are shown for each rule.", min=0)] = 3,
    judge: Annotated[
        bool, typer.Option("--judge", help="Ask about each shown stop, and write the answers as `haltline label` does.")
    ] = False,
    by: Annotated[
        str,
        option_of("operator.name", help="With --judge: who judges, for the audit.", metavar="NAME", show_default=False),
    ] = "",
    pin: Annotated[
        bool,
        typer.Option("--pin", help="Write model and thresholds out, so that another release does not change them."),
    ] = False,
    where: Where,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Set the thresholds of the rules of judgement by a budget for false stops. Applies nothing.

    Harm, budgets and tripwires stay as they are. Sessions of the audit table or of recordings that are labelled as
    runaways (`confirmed`, `missed`) do not count for the budget. All others count as fine, even unlabelled ones. Each
    rule gets the strictest of a few thresholds with which all rules together keep the budget, by the upper end of the
    exact binomial interval (95 %); a rule that cannot keep it goes to shadow. With too few sessions for the budget it
    reports the budget that they support, and calibrates to that.

    Example: haltline calibrate --budget 1/500 --from -28d --policy production.yaml --out calibrated.yaml

    Example: haltline calibrate --budget 1/500 --judge --by ada

    Example: haltline calibrate --budget 1/50 --sessions events.jsonl --labels labels.jsonl
    """
    from dataclasses import replace

    from rich.console import Console

    from haltline.streams.learning import calibrating

    if out is not None and not out.parent.is_dir():
        fail(f"--out: expected a file in a folder that exists, got {out}", Exit.USAGE)
    if judge and (sessions or as_json or not by.strip()):
        fail(
            "--judge: expected --by NAME, and neither --sessions, which have no decisions to label, nor --json",
            Exit.USAGE,
        )
    shown = Console(stderr=True)
    labelled = {} if labels is None else _labels_in(labels)
    in_force, plugins = read_policy(policy), read_plugins()
    sources = [str(file) for file in sessions] if sessions else [AUDIT]
    recorded = [session for session in read(sources, where, at) if session.length > 1]
    if not recorded:
        fail(f"{', '.join(sources)}: expected sessions in this range, got none", Exit.NO)
    unknown = labelled.keys() - {session.session_id for session in recorded}
    if unknown:
        shown.print(f"{labels}: {len(unknown)} of {len(labelled)} sessions were not read, such as {min(unknown)}")
    recorded = [replace(session, label=labelled.get(session.session_id, session.label)) for session in recorded]
    found = list(tracked(calibrating.ladders(in_force, recorded), "Rules"))
    with UsageErrors(ValueError):
        calibration = calibrating.calibrate(in_force, recorded, found, float(budget), plugins)
        document = calibrating.pinned(calibration.proposed) if pin else calibration.proposed
        together = calibrating.stopped_together(calibration.enforced, recorded, plugins) & calibration.fine
    summary = _summary(calibration, len(together), _period(recorded), budget)
    if out is not None:
        from haltline.streams.learning.candidate import document as written

        header = "".join(f"# {line}\n" for line in ("haltline calibrate", *summary))
        out.write_text(header + written(document), encoding="utf-8")
    if as_json:
        print_json(_to_dict(calibration, len(together), examples))
        return
    _show(calibration, summary, examples)
    if out is not None:
        against = f" --against {policy}" if policy is not None else ""
        source = " ".join(sources) if sessions else f"audit --table {where.table}"
        say(f"written: {out}. Nothing is applied. To compare: haltline backtest {source} --policy {out}{against}")
    if judge:
        from haltline.cli.answers import operator_of
        from haltline.streams.audit.archive import Archive

        _judge(calibration, examples, Archive(where.table, options_of(where.storage_option)), operator_of(at), by)


def _labels_in(file: Path) -> dict[str, str]:
    from haltline.streams.replay.history import labels_in

    try:
        return labels_in(file)
    except (OSError, ValueError) as error:
        fail(f"--labels: {error}", Exit.USAGE)


def _period(recorded: "list[Any]") -> str:
    from haltline.schemas.record import rfc3339

    times = [session.events[end][1].time for session in recorded for end in (0, -1)]
    return f"{rfc3339(min(times))} to {rfc3339(max(times))}"


def _summary(calibration: "Calibration", together: int, period: str, budget: Fraction) -> list[str]:
    """Budget, sessions, bound and date of data, one line each."""
    fine, judgement = len(calibration.fine), calibration.policy.judgement
    judged, runaways = len(calibration.judged), len(calibration.runaways)
    data = f"{fine} sessions taken for fine, {judged} of them judged, and {runaways} labelled runaways, {period}"
    stops = f"{together} of {fine} fine sessions stopped by rules of judgement"
    lines = [
        f"budget: {budget} false stops; data: {data}",
        f"proposed: {stops}; at 95 % at most {_one_in(together, fine)}",
    ]
    if not calibration.is_enough:
        seen = f"{fine:,} of {calibration.needed:,} sessions seen that the budget needs at least"
        lines.append(f"{seen}; the bound that they support is {_one_in(0, fine)}")
    if calibration.stays_in_shadow:
        lines.append(
            f"the policy stays as it is (judgement: {judgement}) until there are enough; the steps are a preview"
        )
    elif judgement is not None:
        lines.append(f"judgement: {judgement} ends with this policy")
    return lines


def _one_in(stops: int, sessions: int) -> str:
    from haltline.streams.learning.false_stops import upper_bound

    return f"1 in {int(1 / upper_bound(stops, sessions)):,}"


def _show(calibration: "Calibration", summary: list[str], examples: int) -> None:
    for line in summary:
        say(line)
    rows = []
    for ladder in calibration.ladders:
        if not ladder.stops[0]:
            continue
        rows.append((ladder.rule, *map(str, calibration.counts(ladder)), calibration.setting(ladder)))
    print_table(("rule", "fine: in force", "proposed", "runaways: in force", "proposed", "setting"), rows)
    quiet = [ladder.rule for ladder in calibration.ladders if not ladder.stops[0]]
    if quiet:
        say(f"stop nothing: {', '.join(quiet)}")
    for ladder in calibration.ladders:
        for stop in calibration.examples(ladder, examples):
            say(_line(ladder.rule, stop))


def _line(rule: str, stop: "Stop") -> str:
    return f"to be judged: {rule}: session {stop.session_id}, event {stop.event_id} (number {stop.seq}): {stop.reason}"


def _to_dict(calibration: "Calibration", together: int, examples: int) -> dict[str, object]:
    from dataclasses import asdict

    from haltline.streams.learning.false_stops import upper_bound

    fine = len(calibration.fine)
    return {
        "budget": calibration.budget,
        "fine": fine,
        "judged": len(calibration.judged),
        "runaways": len(calibration.runaways),
        "needed": calibration.needed,
        "enough": calibration.is_enough,
        "stopped": together,
        "bound": upper_bound(together, fine),
        "vouched": upper_bound(0, fine),
        "rules": [
            {
                "rule": ladder.rule,
                **dict(zip(_COUNTED, calibration.counts(ladder), strict=True)),
                "setting": calibration.setting(ladder),
                "to_be_judged": [asdict(stop) for stop in calibration.examples(ladder, examples)],
            }
            for ladder in calibration.ladders
        ],
    }


def _judge(calibration: "Calibration", examples: int, archive: "Archive", operator: "Operator", by: str) -> None:
    """Ask about each example that has a decision, and write a label for each answer."""
    from haltline.streams.audit.query import literal

    questions = [
        (ladder.rule, stop) for ladder in calibration.ladders for stop in calibration.examples(ladder, examples)
    ]
    if not questions:
        say("nothing is to be judged")
        return
    names = ", ".join(literal(name) for name in sorted({stop.session_id for _, stop in questions}))
    decisions = archive.decisions(f'"session_id" IN ({names})')
    for rule, stop in questions:
        decision = _decision(decisions, rule, stop)
        if decision is None:
            say(f"no stop by {rule} is recorded in session {stop.session_id}: there is nothing to label")
            continue
        say(_line(rule, stop))
        _ask(operator, decision, by)


def _decision(decisions: "list[Decision]", rule: str, stop: "Stop") -> "Decision | None":
    """The rule's recorded stop of the session, or its suppressed one: at the event, or else the first."""
    from haltline.schemas.decisions import Level

    of_rule = [one for one in decisions if one.session_id == stop.session_id and one.detector == rule]
    stops = [one for one in of_rule if (one.would or one.level) >= Level.PAUSE]
    return max(stops, key=lambda one: one.event_id == stop.event_id, default=None)


def _ask(operator: "Operator", decision: "Decision", by: str) -> None:
    from haltline.streams.replay.label_precision import CONFIRMED, FALSE_ALARM

    answer = typer.prompt("a right stop? y, n or s (skip)", default="s", value_proc=_answer)
    if answer == "s":
        return
    label = CONFIRMED if answer == "y" else FALSE_ALARM
    answered = operator.label(decision, label, by=by, reason="judged with haltline calibrate").answered
    say(f"decision {decision.decision_id}, {label}: " + ("is recorded" if answered else "is kept; no worker answered"))


def _answer(text: str) -> str:
    if text not in {"y", "n", "s"}:
        raise typer.BadParameter(f"expected y, n or s, got {text!r}")
    return text


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(calibrate)
