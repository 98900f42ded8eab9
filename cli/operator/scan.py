"""`haltline scan`: finds problems in the histories that agents keep on this machine."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from haltline.cli.common import AsJson, Exit, PolicyFile, UsageErrors, fail, printable, progress, say, say_error
from haltline.cli.policy_option import read_policy

if TYPE_CHECKING:
    from haltline.streams.scan.report import Report
    from haltline.streams.scan.results import ScannedFile

_WORST: Final = 10
_SKIPPED: Final = 5
_KINDS: Final = 12
_PATH_CHARS: Final = 500
NEXT: Final = {
    "claude-code": "haltline hook install --local",
    **{name: f"haltline hook install --for {name} --local" for name in ("codex", "gemini-cli", "cline", "opencode")},
    "mini-swe-agent": "haltline watch -- mini",
    "openhands": "haltline init",
}
"""The command that guards each agent."""


def scan(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Histories, exports, or folders of them. Default: those in your home.", metavar="[PATH]..."
        ),
    ] = None,
    *,
    since: Annotated[
        str, typer.Option(help="Sessions that were active since: a time, or how long ago (-30d).", metavar="MOMENT")
    ] = "",
    html: Annotated[
        Path | None, typer.Option(help="Write a page with every finding that opens without a network.", metavar="FILE")
    ] = None,
    policy: PolicyFile = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Also read histories again that have not changed since the last scan.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find what went wrong in your agents' histories, and what it cost.

    Reads the histories of Claude Code, mini-swe-agent and others in your home, or the given files and folders, and runs
    them through the rules. Nothing leaves the machine: no socket is opened. Secrets are redacted. A second scan reads
    only what is new. Sessions are played as a guard would have let them happen. What one spent from where it would have
    been held to the next prompt or progress counts as wasted; of a pause between two steps at most five minutes count.

    With --json: one object per line and session, and a last line with the totals. Exit codes: 0 done, whatever was
    found; 1 no session was found; 2 a path cannot be read.

    Example: haltline scan --since -30d --html report.html
    """
    from haltline.schemas.policy import Policy
    from haltline.streams.scan.homes import histories, within
    from haltline.streams.scan.report import Report
    from haltline.streams.scan.results import Known, sessions_in, size_of
    from haltline.streams.scan.scanning import scan

    rules = Policy() if policy is None else read_policy(policy)
    if html is not None and (html.is_dir() or not html.parent.is_dir()):
        fail(f"--html: expected a file in a folder that exists, got {html}", Exit.USAGE)
    since_ms = _since_ms(since)
    unreadable: list[str] = []

    def on_error(error: OSError) -> None:
        unreadable.append(str(error.filename))
        _say_skipped(f"{str(error.filename)[:_PATH_CHARS]}: {error.strerror}")

    found_in = within(paths, on_error) if paths else histories(on_error=on_error)
    files = [one if isinstance(one, tuple) else ("", one) for one in found_in]
    known = Known(cache_file(), rules, fresh=fresh)
    found: list[ScannedFile] = []
    size = sum(map(size_of, (path for _, path in files)))
    with progress(f"Reading {len(files)} files", size) as step:
        found += scan(files, rules, known, step=step)
    try:
        known.write()
    except OSError as error:
        say_error(f"haltline: scan: the next scan reads everything again: {error.filename}: {error.strerror}")
    report = Report(sessions_in(found, since_ms), found)
    if html is not None:
        from haltline.interventions.agent.user_files import write_file
        from haltline.streams.scan.page import page_of

        with UsageErrors(OSError):
            write_file(html, (page_of(report).encode(),))
    for why in report.skipped[:_SKIPPED]:
        _say_skipped(why)
    if len(report.skipped) > _SKIPPED:
        say_error(f"haltline: scan: and {len(report.skipped) - _SKIPPED} more places that could not be read")
    if as_json:
        for line in report.lines():
            typer.echo(line.decode())
    else:
        _print(report, found, html)
    if not {str(path) for path in paths or ()}.isdisjoint(unreadable):
        raise typer.Exit(Exit.USAGE)
    if not report.sessions:
        raise typer.Exit(Exit.NO)


def _since_ms(text: str) -> int | None:
    from haltline.streams.replay.time_range import BadMoment, parse_moment

    try:
        return parse_moment(text, int(time.time() * 1000))
    except BadMoment:
        fail(f"--since: expected a time (2026-11-20T10:00:00Z) or how long ago (-90m, -30d), got {text!r}", Exit.USAGE)


def cache_file() -> Path:
    """The file of the results between scans."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "haltline" / "scan.jsonl"


def _say_skipped(why: str) -> None:
    from haltline.streams.importing.formats import clean_name

    say_error(f"haltline: scan: {printable(clean_name(why, 1000))}")


def _print(report: "Report", found: "Sequence[ScannedFile]", html: Path | None) -> None:
    from haltline.cli.tables import print_table

    if not report.sessions:
        if any(file.sessions for file in found):
            say("No session was active since then.")
        else:
            say("No session was found. Name files or folders with histories of agents: haltline scan PATH")
        return
    say(report.read_line(), style="bold")
    say(f"Models: {report.models_line()}")
    if report.unpriced:
        say(f"Models without a known price, not in the dollar totals: {', '.join(report.unpriced)}")
    say("")
    say(report.wasted_line(), style="bold")
    if report.kinds:
        print_table(
            ("what went wrong", "rule", "times", "sessions", "tokens", "dollars", "time"),
            [kind.row() for kind in report.kinds[:_KINDS]],
        )
        print_table(
            ("the worst", "session", "project", "why", "tokens", "dollars", "time"),
            list(report.worst(_WORST)),
        )
    if report.asks:
        sessions = f"{report.sessions_with_asks} sessions"
        say(f"A person would have been asked about {report.asks} acts in {sessions} (see --json).")
    if report.refused:
        sessions = f"{report.sessions_with_refused} sessions"
        say(
            f"{report.refused} times in {sessions} calls would have been refused, and the session went on (see --json)."
        )
    if html is not None:
        say(f"Every finding with the steps around it: {html}")
    else:
        say("Every finding with the steps around it: haltline scan --html report.html")
    for agent in report.agents:
        if agent in NEXT:
            say(f"Guard {agent}: {NEXT[agent]}")
