"""`haltline import`: converts recordings of agents to JSON lines of ActionEvents."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from haltline.cli.common import Exit, fail

FormatName = Literal[
    "aider", "amp", "atif", "claude-code", "cline", "codex", "copilot-cli", "cursor", "gemini-cli", "goose",
    "mini-swe-agent", "opencode", "openhands", "otel", "pi", "swe-agent", "trace", "trae-agent",
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

    Exit codes: 0 done; 1: some of it could not be read, or it was empty; 2: a file is no recording.

    Example: haltline import run.traj.json > events.jsonl
    """
    from haltline.streams.importing.formats import Imported
    from haltline.streams.importing.reading import NotReadable
    from haltline.streams.importing.values import moment
    from haltline.streams.scan.homes import within

    start_ms = moment(start)
    if start_ms is None:
        fail(f"--start: expected a time such as 2025-01-01T00:00:00Z, got {start!r}", Exit.USAGE)
    unreadable: list[OSError] = []
    try:
        found = list(within(files, unreadable.append))
    except OSError as error:
        fail(f"import: {error.filename}: {error.strerror}", Exit.USAGE)
    for one in unreadable:
        print(f"haltline: import: {one.filename}: {one.strerror}", file=sys.stderr)
    skipped = len(unreadable)
    if not found:
        fail(f"import: expected recordings in {', '.join(map(str, files))}, got none", Exit.NO)
    for file in found:
        count = 0
        try:
            imported = Imported(file, form=form, session_id=session, agent_id=agent_id)
            for count, event in enumerate(imported.events(start_ms), start=1):  # noqa: B007  # printed below
                sys.stdout.buffer.write(event.to_json() + b"\n")
        except (NotReadable, OSError) as error:
            why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else error
            print(f"haltline: import: {why}", file=sys.stderr)
            if file in files:
                raise typer.Exit(Exit.USAGE) from None
            skipped += 1  # the folder's other files may be recordings
            continue
        finally:
            sys.stdout.buffer.flush()
        if not count:
            imported.skipped.append(f"expected calls of tools or turns of a model ({imported.form}), got none")
        made_up = f", {imported.untimed} of them with times that were made up" if imported.untimed else ""
        print(f"haltline: import: {file}: {imported.form}: {count} events{made_up}", file=sys.stderr)
        for why in imported.skipped:
            print(f"haltline: import: {file}: {why}", file=sys.stderr)
        skipped += len(imported.skipped)
    raise typer.Exit(Exit.NO if skipped else Exit.OK)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("import")(import_recordings)
