"""`python -m benchmarks.quality`: what haltline would have done with recorded sessions, beside its peers' rules.

Prints for each detector in how many sessions it fired and how many it would have stopped, and fails when sessions
that were resolved or solved would have been stopped or nudged more often than is allowed. With --synthetic: over
generated runaways and healthy sessions instead.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import typer
from rich.console import Console
from rich.progress import track

from benchmarks.quality import report, synthetic
from benchmarks.quality.judging import Judged, judge
from benchmarks.quality.sessions import default_files, read
from benchmarks.quality.summary import Summary, summarize
from haltline.detectors import ALL
from haltline.streams.cli.common import console as console_for_people
from haltline.streams.cli.run import read_policy
from haltline.streams.core import Core
from haltline.streams.traces import UnreadableTrace

_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 when every target is met, 1 when one is missed, 2 when there is nothing to read."""
    asked = _options().parse_args(arguments)
    core = Core(read_policy(asked.policy))
    progress = Console(stderr=True)
    if asked.synthetic:
        return _synthetic(core, asked, progress)
    try:
        sessions = list(read(asked.files or default_files()))
    except (OSError, UnreadableTrace) as error:
        print(f"benchmarks.quality: wanted recorded sessions, came {error}", file=sys.stderr)
        return _USAGE
    judged = [
        judge(core, known) for known in track(sessions, "Sessions", console=progress, disable=not progress.is_terminal)
    ]
    summary = summarize(judged, [detector.id for detector in ALL])
    if asked.json:
        _print_json(_as_json(summary, judged))
    else:
        console = console_for_people()
        if asked.list:
            report.show_sessions(judged, summary, console)
        report.show(summary, judged, console)
    return 0 if summary.passed else 1


def _synthetic(core: Core, asked: argparse.Namespace, progress: Console) -> int:
    measured = synthetic.measure(core, asked.seeds, progress)
    if asked.json:
        _print_json(measured.as_json())
    else:
        synthetic.show(measured, console_for_people())
    return 0 if measured.passed else 1


def _print_json(data: dict[str, Any]) -> None:
    print(orjson.dumps(data, option=orjson.OPT_INDENT_2).decode())


def _as_json(summary: Summary, judged: Sequence[Judged]) -> dict[str, Any]:
    return summary.as_json() | {
        "sessions": [
            {
                "session_id": j.known.session_id,
                "source": j.known.source,
                "label": j.known.session.label,
                "events": j.result.events,
                "level": j.result.level,
                "loops": j.known.loops,
                "fired": {
                    detector: {
                        "seq": fired.seq,
                        "severity": fired.severity.value,
                        "level": fired.level.value,
                        "reason": fired.reason,
                    }
                    for detector, fired in j.fired.items()
                },
                "seen": {system: asdict(seen) for system, seen in j.seen.items() if seen.found is not None},
            }
            for j in judged
            if j.fired or any(seen.found is not None for seen in j.seen.values())
        ]
    }


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.quality --list --policy mine.yaml sessions.jsonl.gz",
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="recorded traces (../shared/traces)")
    parser.add_argument("--policy", type=Path, metavar="FILE", help="the policy document (YAML; every default)")
    parser.add_argument("--list", action="store_true", help="every session in which something fired, and what")
    parser.add_argument("--synthetic", action="store_true", help="generated runaways and healthy sessions instead")
    parser.add_argument("--seeds", type=int, default=20, help="of each generated family (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except typer.Exit as refused:  # the policy could not be used; why is said already
        sys.exit(refused.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
