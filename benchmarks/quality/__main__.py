"""`python -m benchmarks.quality`: haltline's decisions on recorded sessions, compared with its peers' rules.

Prints how many of the judged runaways get a stop or a hint, and how many other sessions, by source and by class; fails
if a target is missed. --synthetic uses generated runaways and healthy sessions instead. --ablation prints what each
rule finds alone, what is lost without it, and its cost. --sweep prints runaways stopped against false stops for each
value of a setting; --plot also draws them.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import typer
from rich.console import Console

from benchmarks import command
from benchmarks.quality import ablation, curve, picture, report, synthetic
from benchmarks.quality.judging import Judged, judge
from benchmarks.quality.sessions import (
    JUDGED,
    Kind,
    Known,
    default_files,
    files_in,
    read,
    read_judgements,
    without_done,
)
from benchmarks.quality.summary import Summary, summarize
from haltline.cli.common import console as console_for_people
from haltline.cli.policy_option import read_policy
from haltline.detectors import ALL
from haltline.schemas.policy import Policy
from haltline.streams.engine.core import Core
from haltline.streams.policy.loader import BadPolicy
from haltline.streams.replay.traces import UnreadableTrace

_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 if every target is met, 1 if one is missed, 2 without sessions to read."""
    parser = _options()
    args = parser.parse_args(arguments)
    if args.plot is not None and args.sweep is None:
        parser.error("--plot: expected --sweep with it")
    policy = read_policy(args.policy)
    try:
        if args.synthetic:
            return _synthetic(args, policy)
        run = _ablation if args.ablation else _judged if args.sweep is None else _swept
        return run(args, policy, _sessions(args))
    except (OSError, UnreadableTrace, BadPolicy) as error:
        print(f"benchmarks.quality: {error}", file=sys.stderr)
        return _USAGE


def _judged(args: argparse.Namespace, policy: Policy, sessions: Sequence[Known]) -> int:
    judged = judge(sessions, policy, jobs=args.jobs, console=_progress())
    summary = summarize(judged, [detector.id for detector in ALL])
    if args.json:
        _print_json(_as_json(summary, judged))
    else:
        if args.list:
            report.show_sessions(judged, console_for_people())
        report.show(summary, judged, console_for_people())
    return 0 if summary.passed else 1


def _swept(args: argparse.Namespace, policy: Policy, sessions: Sequence[Known]) -> int:
    swept = curve.measure(sessions, policy, args.sweep, jobs=args.jobs, console=_progress())
    if args.plot is not None:
        args.plot.write_text(picture.picture(swept), encoding="utf-8")
    if args.json:
        _print_json(swept.as_json())
    else:
        curve.show(swept, console_for_people())
    return 0


def _ablation(args: argparse.Namespace, policy: Policy, sessions: Sequence[Known]) -> int:
    rows = ablation.measure(sessions, policy, seeds=args.seeds, jobs=args.jobs, console=_progress())
    costs = ablation.costs(sessions[:: args.cost_share], policy, _progress()) if args.cost_share else {}
    if args.json:
        _print_json(ablation.as_json(rows, costs))
    else:
        ablation.show(rows, costs, console_for_people())
    return 0


def _synthetic(args: argparse.Namespace, policy: Policy) -> int:
    measured = synthetic.measure(Core(policy), args.seeds, _progress())
    if args.json:
        _print_json(measured.as_json())
    else:
        synthetic.show(measured, console_for_people())
    return 0 if measured.passed else 1


def _progress() -> Console:
    return Console(stderr=True)


def _sessions(args: argparse.Namespace) -> list[Known]:
    """Read the sessions of the given files. A missing default folder beside the repository is reported and left out.

    Raises:
        OSError: a given file cannot be read.
        UnreadableTrace: a line cannot be used, or there is no session at all.

    """
    files: list[Path] = []
    for file in args.files or default_files():
        if args.files or file.exists():
            files.append(file)
        else:
            print(f"benchmarks.quality: no traces at {file}: left out", file=sys.stderr)
    folder: Path = args.judged or JUDGED
    judgements = {}
    if args.judged is not None or (not args.files and folder.is_dir()):
        judgements = read_judgements(folder)
        files = [*files_in(folder), *files]
    elif not args.files:
        print(f"benchmarks.quality: no judged sessions at {folder}: left out", file=sys.stderr)
    sessions = read(files, judgements)
    if not sessions:
        raise UnreadableTrace("expected recorded sessions, got none")
    return [*sessions, *(without_done(known) for known in sessions if known.kind in {Kind.MODERN, Kind.MODERN_SOUND})]


def _print_json(data: dict[str, Any]) -> None:
    print(orjson.dumps(data, option=orjson.OPT_INDENT_2).decode())


def _as_json(summary: Summary, judged: Sequence[Judged]) -> dict[str, Any]:
    return summary.as_json() | {
        "sessions": [
            {
                "session_id": j.known.session_id,
                "source": j.known.source,
                "kind": j.known.kind.value,
                "label": j.known.session.label,
                "events": j.result.events,
                "level": j.result.level,
                "fired": {
                    detector: {
                        "seq": fired.seq,
                        "severity": fired.severity.value,
                        "level": fired.level.value,
                        "reason": fired.reason,
                    }
                    for detector, fired in j.fired.items()
                },
                "seen": {
                    system: {"found": seen.found, "stopped": seen.stopped, "asked": seen.asked, "rule": seen.rule}
                    for system, seen in j.seen.items()
                    if seen.found is not None or seen.asked is not None
                },
            }
            for j in judged
            if j.fired or any(seen.found is not None for seen in j.seen.values())
        ]
    }


def _options() -> argparse.ArgumentParser:
    parser = command.options(
        "benchmarks.quality",
        __doc__,
        "--list --policy mine.yaml sessions.jsonl.gz",
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="recorded traces (../shared/traces)")
    parser.add_argument(
        "--judged", type=Path, metavar="DIR", help="verdicts.jsonl and more sessions (../shared/judged, without FILE)"
    )
    parser.add_argument("--policy", type=Path, metavar="FILE", help="the policy document (YAML; every default)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--list", action="store_true", help="every session in which a rule fired, and the rule")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--synthetic", action="store_true", help="generated runaways and healthy sessions instead")
    what.add_argument("--ablation", action="store_true", help="each rule alone, and what is lost without it")
    what.add_argument("--sweep", metavar="SETTING=VALUES", help="as `haltline backtest`: rules.NAME.settings.X=2,3,5")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.svg", help="with --sweep: runaways stopped against false stops"
    )
    parser.add_argument("--seeds", type=int, default=20, help="seeds of each generated family (%(default)s)")
    parser.add_argument(
        "--cost-share", type=int, default=8, metavar="N", help="ablation: time on 1 of N sessions; 0: not (%(default)s)"
    )
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except typer.Exit as refused:  # the policy is not valid; the reason was printed
        sys.exit(refused.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
