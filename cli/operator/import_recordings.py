"""`haltline import`: converts recordings of agents to JSON lines of ActionEvents."""

import argparse
import sys
from pathlib import Path

_FORMATS = (
    "aider",
    "amp",
    "claude-code",
    "cline",
    "codex",
    "copilot-cli",
    "cursor",
    "gemini-cli",
    "google-adk",
    "goose",
    "inspect",
    "langfuse",
    "langsmith",
    "mini-swe-agent",
    "openai-agents",
    "opencode",
    "openhands",
    "otel",
    "phoenix",
    "pi",
    "swe-agent",
    "trace",
    "trae-agent",
)
"""The formats of the importer, which is not imported for the help; a test compares both."""


def options_of() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="haltline import",
        description="Print recordings of agents as events (JSON lines), for `haltline backtest`. "
        "Secrets are redacted, long texts are cut.",
        epilog="Exit codes: 0 done; 1: some of it could not be read, or it was empty; 2: a file is no recording. "
        "Example: haltline import run.traj.json > events.jsonl && haltline backtest events.jsonl",
    )
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="PATH", help="recordings, also compressed (.gz), or folders with some"
    )
    parser.add_argument("--format", dest="form", choices=_FORMATS, help="default: recognized by the file's content")
    parser.add_argument(
        "--session", metavar="ID", help="session id; default: that of the recording, or the file's name"
    )
    parser.add_argument("--agent-id", metavar="NAME", help="agent id; default: the format's name")
    parser.add_argument(
        "--start", default="2025-01-01T00:00:00Z", metavar="TIME", help="when a recording without times began"
    )
    return parser


def main(arguments: list[str]) -> int:
    """Run the command with the arguments after `import`. Returns the exit code."""
    parser = options_of()
    options = parser.parse_args(arguments)
    from haltline.streams.importing.formats import Imported
    from haltline.streams.importing.reading import NotReadable
    from haltline.streams.importing.values import moment
    from haltline.streams.scan.homes import within

    start_ms = moment(options.start)
    if start_ms is None:
        parser.error(f"--start: expected a time such as 2025-01-01T00:00:00Z, got {options.start!r}")
    unreadable: list[OSError] = []
    try:
        files = list(within(options.files, unreadable.append))
    except OSError as error:
        print(f"haltline: import: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    for one in unreadable:
        print(f"haltline: import: {one.filename}: {one.strerror}", file=sys.stderr)
    skipped = len(unreadable)
    if not files:
        print(
            f"haltline: import: expected recordings in {', '.join(map(str, options.files))}, got none", file=sys.stderr
        )
        return 1
    for file in files:
        count = 0
        try:
            imported = Imported(file, form=options.form, session_id=options.session, agent_id=options.agent_id)
            for count, event in enumerate(imported.events(start_ms), start=1):  # noqa: B007  # printed below
                sys.stdout.buffer.write(event.to_json() + b"\n")
        except (NotReadable, OSError) as error:
            why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else error
            print(f"haltline: import: {why}", file=sys.stderr)
            if file in options.files:
                return 2
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
    return 1 if skipped else 0
