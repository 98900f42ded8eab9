"""`haltline import`: converts recordings of agents to JSON lines of ActionEvents."""

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from haltline.cli.common import Exit, fail, printable, progress

FormatName = Literal[
    "aider", "amp", "atif", "claude-code", "cline", "codex", "copilot-cli", "cursor", "droid", "gemini-cli", "goose",
    "kimi", "mini-swe-agent", "opencode", "openhands", "otel", "pi", "qwen-code", "swe-agent", "trace", "trae-agent",
]  # fmt: skip
"""The formats of the importer, which is not imported for the help; a test compares both."""


def import_recordings(
    files: Annotated[
        list[Path], typer.Argument(help="Recordings, also compressed (.gz), or folders with some.", metavar="PATH...")
    ],
    *,
    form: Annotated[
        FormatName | None, typer.Option("--format", help="Default: recognized by the file's content.")
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(help="Session id. Default: that of the recording, or the file's name.", metavar="ID"),
    ] = None,
    agent_id: Annotated[str | None, typer.Option(help="Agent id. Default: the format's name.", metavar="NAME")] = None,
    start: Annotated[
        str, typer.Option(help="When a recording without times began.", metavar="TIME")
    ] = "2025-01-01T00:00:00Z",
) -> None:
    """Print recordings of agents (Claude Code, Codex, OpenHands, OpenTelemetry ...) as events, for `haltline backtest`.

    One JSON object a line. Secrets are redacted, long texts are cut.

    What cannot be read costs a line on standard error, and the other files are read. Exit codes: 0 done; 1: some of it
    could not be read, or it was empty; 2: a named file is no recording.

    Example: haltline import run.traj.json > events.jsonl
    """
    from haltline.streams.importing.values import moment
    from haltline.streams.scan.homes import within

    start_ms = moment(start)
    if start_ms is None:
        fail(f"--start: expected a time such as 2025-01-01T00:00:00Z, got {start!r}", Exit.USAGE)
    tally = _Tally({str(file) for file in files})
    found = list(within(files, tally.unreadable))
    with progress(f"Reading {len(found)} files", len(found)) as step:
        for file in found:
            _print_events(file, start_ms, tally, {"form": form, "session_id": session, "agent_id": agent_id},
                          is_told=len(found) == 1)  # fmt: skip
            step()
    if not found and not tally.files:
        fail(f"import: expected recordings in {', '.join(map(str, files))}, got none", Exit.NO)
    if len(found) > 1 or tally.files or tally.places:
        forms = ", ".join(sorted(tally.forms))
        skipped = f"{_counted(tally.files, 'file')} and {_counted(tally.places, 'place')}"
        _say(f"{_counted(len(found), 'file')} of {forms or 'no format'}: {tally.events} events; skipped: {skipped}")
    raise typer.Exit(tally.exit)


class _Tally:
    """What was read, and what was not."""

    def __init__(self, named: Collection[str]) -> None:
        """`named` are the paths that the user named: each has to be a recording, or a folder."""
        self._named = named
        self.events = self.files = self.places = 0
        self.forms: set[str] = set()
        self.exit = Exit.OK

    def unreadable(self, error: OSError) -> None:
        self.file(str(error.filename), f"{str(error.filename)[:500]}: {error.strerror}")

    def file(self, path: str, why: str, *, is_empty: bool = False) -> None:
        _say(why)
        self.files += 1
        self.exit = max(self.exit, Exit.USAGE if path in self._named and not is_empty else Exit.NO)

    def place(self, why: str) -> None:
        _say(why)
        self.places += 1
        self.exit = max(self.exit, Exit.NO)


def _print_events(file: Path, start_ms: int, tally: _Tally, options: dict[str, Any], *, is_told: bool) -> None:
    from haltline.streams.importing.formats import Imported
    from haltline.streams.importing.reading import Empty, NotReadable

    count = 0
    try:
        imported = Imported(file, **options)
        for count, event in enumerate(imported.events(start_ms), start=1):  # noqa: B007  # told below
            sys.stdout.buffer.write(event.to_json() + b"\n")
    except NotReadable as error:
        tally.file(str(file), str(error), is_empty=isinstance(error, Empty))
        return
    except OSError as error:
        if error.filename is None:  # of the output
            raise
        tally.unreadable(error)
        return
    finally:
        tally.events += count
        sys.stdout.buffer.flush()
    made_up = f", {imported.untimed} of them with times that were made up" if imported.untimed else ""
    tally.forms.add(str(imported.form))
    if is_told:
        _say(f"{file}: {imported.form}: {count} events{made_up}")
    if not count:
        tally.place(f"{file}: expected calls of tools or turns of a model ({imported.form}), got none")
    for why in imported.skipped:
        tally.place(f"{file}: {why}")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _say(text: str) -> None:
    from haltline.streams.importing.formats import clean_name

    print(f"haltline: import: {printable(clean_name(text, 1000))}", file=sys.stderr)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("import")(import_recordings)
