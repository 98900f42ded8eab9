"""`python -m benchmarks.quality`: what is executed of recorded sessions behind a guard, beside peers' rules.

Every session is played once more, live, through the public Guard, by an agent that does not listen: after a refusal it
goes on to its next recorded call. Counted is what was executed: of runaways, how many calls later than five after the
moment to stop were still made, and in how many sessions next to none; of sound and solved sessions, in how many a call
was refused, how many calls, and how many sessions were stopped for good. In brackets: 95 % intervals (Wilson). Fails
if a target is missed. A sample is also played through a worker on an embedded broker and through `haltline hook`.

--markdown prints the tables as they are in README.md and docs/quality.md; --write also writes them there.
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import typer
from rich.console import Console

from benchmarks import command
from benchmarks.quality import report, routes
from benchmarks.quality.measuring import OURS, Measured, measure
from benchmarks.quality.sessions import GROUPS, SHARED, Known, read, read_groups, read_signals
from haltline.cli.common import console as console_for_people
from haltline.cli.policy_option import read_policy
from haltline.streams.replay.traces import UnreadableTrace

_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 if every target is met, 1 if one is missed, 2 without sessions to read."""
    args = _options().parse_args(arguments)
    policy = None if args.policy is None else read_policy(args.policy)
    try:
        sessions = _sessions(args)
    except (OSError, ValueError) as error:
        print(f"benchmarks.quality: {error}", file=sys.stderr)
        return _USAGE
    progress = Console(stderr=True)
    compared: list[routes.Compared] = []
    logging.disable(logging.CRITICAL)  # a guard that refuses says so
    try:
        measured = measure(sessions, policy, jobs=args.jobs, console=progress)
        if args.routes:
            with routes.worker() as bootstrap:
                compared = routes.compare(routes.sample(sessions, measured, args.routes), bootstrap, progress)
    finally:
        logging.disable(logging.NOTSET)
    if args.json:
        print(orjson.dumps(_as_json(measured, compared), option=orjson.OPT_INDENT_2).decode())
    elif args.markdown or args.write:
        made = {**report.tables(measured), "ways": routes.table(compared)}
        if args.write:
            for page in report.PAGES:
                page.write_text(report.written(page.read_text(encoding="utf-8"), made), encoding="utf-8")
        print(report.markdown(made))
    else:
        report.show(measured, console_for_people())
        if compared:
            routes.table(compared).show(console_for_people())
        for one in (one for one in compared if not one.agrees):
            print(f"{one.way}: {one.session_id}: expected {list(one.local)}, got {list(one.refused)}")
    return 0 if measured.passed and all(one.agrees or one.way == "async" for one in compared) else 1


def _sessions(args: argparse.Namespace) -> list[Known]:
    """Read the sessions. Raises OSError, and UnreadableTrace, a ValueError, if a file cannot be used."""
    if args.files:
        sessions = read(args.files, None if args.signals is None else read_signals(args.signals), group="given")
    else:
        sessions = read_groups(args.groups or tuple(GROUPS))
    if not sessions:
        raise UnreadableTrace("expected recorded sessions, got none")
    return sessions


def _as_json(measured: Measured, compared: Sequence[routes.Compared]) -> dict[str, Any]:
    return {
        "passed": measured.passed,
        "targets": [
            {"group": t.group, "name": t.name, "count": c.part, "of": c.of, "met": t.met(c)}
            for t, c in measured.targets
        ],
        "groups": {
            system: {name: row.as_json() for name, row in measured.rows(system, lambda known: known.group).items()}
            for system in measured.outcomes
        },
        "sources": {
            name: row.as_json()
            for name, row in measured.rows(OURS, lambda known: f"{known.group}: {known.source}").items()
        },
        "sessions": [
            {
                "session_id": one.known.session_id,
                "group": one.known.group,
                "kind": one.known.kind.value,
                "signal": one.known.signal,
                "calls": one.calls,
                "refused": one.refused,
                "hinted": one.hinted,
                "for_good": one.for_good,
                "late": one.late,
                "late_made": one.late_made,
                "early": one.early,
                "rules": list(one.rules),
            }
            for one in measured.outcomes[OURS]
            if one.refused or one.late or one.hinted
        ],
        "routes": [one.as_json() for one in compared],
    }


def _options() -> argparse.ArgumentParser:
    parser = command.options("benchmarks.quality", __doc__, "--groups judged solved --jobs 2 --markdown")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="recorded traces, or native streams")
    parser.add_argument(
        "--signals", type=Path, metavar="FILE", help="with FILE: what was right, a JSON object {SESSION: [VERDICT, N]}"
    )
    parser.add_argument("--groups", nargs="*", choices=tuple(GROUPS), help=f"sets of {SHARED.name}/ (all)")
    parser.add_argument("--policy", type=Path, metavar="FILE", help="the policy document (YAML; every default)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (%(default)s)")
    parser.add_argument(
        "--routes", type=int, default=8, metavar="N", help="sessions that are also played through a worker and hooks; 0"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="print JSON")
    how.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    how.add_argument("--write", action="store_true", help="also write them into README.md and docs/quality.md")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except typer.Exit as refused:  # the policy is not valid; the reason was printed
        sys.exit(refused.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
