"""`haltline scan`: finds problems in the histories that agents keep on this machine."""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

import typer

from haltline.cli.common import AsJson, Exit, PolicyFile, UsageErrors, fail, printable, progress, say, say_error
from haltline.cli.policy_option import read_policy

if TYPE_CHECKING:
    from haltline.streams.scan.report import Report
    from haltline.streams.scan.results import ScannedFile

_WORST: Final = 10
_SKIPPED: Final = 5
_GROUPS: Final = 3
_WORST_SHOWN: Final = 2
_GROUPS_ALONE: Final = 12
_LINES: Final = 24
"""A terminal with so many lines shows so many of each, and the headline above."""
_ANY_LINES: Final = 10_000
_ID_CHARS: Final = 8
_NAME_CHARS: Final = 24
_WIDE: Final = 120
"""Columns of a terminal with room for whole ids."""
_PATH_CHARS: Final = 500
NEXT: Final = {
    "claude-code": "haltline hook install --local --user",
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
    by: Annotated[
        Literal["day", "project", "agent", "model"] | None,
        typer.Option(help="By what to sum what was used. Default: day; on a terminal the last days."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with every finding that opens without a network.", metavar="FILE")
    ] = None,
    policy: PolicyFile = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Also read histories again that have not changed since the last scan.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what your agents used, what went wrong in their histories, and what a hold would have saved.

    Reads the histories of Claude Code, mini-swe-agent and others in your home, or the given files and folders, and runs
    them through the rules. Nothing leaves the machine: no socket is opened. Secrets are redacted. A second scan reads
    only what is new. Sessions are played as a guard would have let them happen. What one spent from where it would have
    been held to the next prompt or progress counts as wasted; of a pause between two steps at most five minutes count.
    Days are in UTC.

    With --json: one object per line and session, with --by per group, and a last line with the totals. Exit codes: 0
    done, whatever was found; 1 no session was found; 2 a path cannot be read.

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
    shown = _Shown(paths or (), by or "", html)
    if as_json:
        for line in report.lines(shown.by):
            typer.echo(line.decode())
    elif report.sessions:
        _print(report, shown)
    else:
        _say_nothing_found(shown, is_any=any(file.sessions for file in found))
    if not {str(path) for path in paths or ()}.isdisjoint(unreadable):
        raise typer.Exit(Exit.USAGE)
    if not report.sessions:
        raise typer.Exit(Exit.NO)


class _Shown(NamedTuple):
    """What was asked for."""

    paths: Sequence[Path]
    by: str
    html: Path | None


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


def _print(report: "Report", options: _Shown) -> None:
    """Print the totals, what was used by what, what went wrong, and what to do next, so that a terminal shows all."""
    from haltline.cli.tables import print_lines, width

    rows = shutil.get_terminal_size().lines if sys.stdout.isatty() else _ANY_LINES
    more = max(0, rows - _LINES)
    say(report.totals_line(), style="bold")
    if cached := report.cache_line():
        say(f"Of these: {cached}.")
    if report.unpriced:
        count, first = len(report.unpriced), report.unpriced[0][:_NAME_CHARS]
        say(f"Not in the dollars: {count} model{'s' if count > 1 else ''} without a known price, as {first}")
    say("")
    by, groups = options.by or "day", report.groups(options.by or "day")
    most = _GROUPS + more // 3 if not options.by else _GROUPS_ALONE + more
    shown = groups[-most:] if by == "day" else groups[:most]
    used = (by, "sessions", "input", "output", "cached", "written", "dollars")
    print_lines(used, [group.row() for group in shown], cut=0, numbers=range(1, 7))
    if len(shown) < len(groups):
        say(f"and {len(groups) - len(shown)} more, all in a pipe; also: --by project, agent or model")
    say("")
    say(report.wasted_line(), style="bold")
    if not options.by or rows == _ANY_LINES:
        wasted = ("what went wrong", "times", "sessions", "tokens", "dollars", "time")
        kinds = report.kinds[: _GROUPS + more // 3]
        print_lines(wasted, [kind.row() for kind in kinds], cut=0, numbers=range(1, 6))
        worst = report.worst(min(_WORST, _WORST_SHOWN + more // 3))
        cells = [(when, name if width() > _WIDE else name[:_ID_CHARS], *rest) for when, name, *rest in worst]
        print_lines(("the worst", "session", "tokens", "dollars", "why"), cells, cut=4, numbers=(2, 3))
    told = [
        *([f"{report.asks} acts ({report.sessions_with_asks} sessions) to ask about"] if report.asks else []),
        *([f"{report.refused} calls ({report.sessions_with_refused}) to refuse alone"] if report.refused else []),
    ]
    if told:
        say(f"Also: {', '.join(told)} (--json).")
    _say_next(report, options)


def _say_next(report: "Report", options: _Shown) -> None:
    from haltline.cli.agent.hook_status import hooks

    if options.html is not None:
        say(f"Each finding with its steps: {options.html}")
    elif report.wasteful:
        named = shlex.join(map(str, options.paths))
        say(f"Each finding with its steps: haltline scan {named}{' ' if named else ''}--html report.html")
    guarded = {hook.agent for hook in hooks(os.environ) if not hook.remark}
    for agent in report.agents:
        if agent in guarded:
            say(f"{agent} is guarded by a hook here: haltline hook status")
        elif agent in NEXT:
            say(f"Guard {agent}: {NEXT[agent]}")


def _say_nothing_found(options: _Shown, *, is_any: bool) -> None:
    from haltline.streams.scan.homes import HOMES, IN_PROJECTS, bases

    if is_any:
        say("No session was active since then.")
    elif options.paths:
        say(f"No session was found in {shlex.join(map(str, options.paths))}.")
        say(f"Read are files of these names, by their content: {', '.join(IN_PROJECTS)}")
    else:
        say(f"No session was found in {Path.home()}. Looked at:")
        homes = bases(Path.home(), os.environ)
        for home in HOMES:
            first, _, rest = home.folders[0].partition("/")
            folder = str((homes[first][0] if first in homes else Path.home() / first) / rest)
            more = [*([" ..."] if home.folders[1:] else []), *([f" or ${home.variable}"] if home.variable else [])]
            say(f"  {home.agent}: {folder.replace(str(Path.home()), '~')}{''.join(more)}")
        say("A folder or a file elsewhere, also of other agents: haltline scan PATH (docs/scan.md)")
