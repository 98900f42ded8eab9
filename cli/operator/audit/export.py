"""`haltline audit export`: the table, or a part of it, as a file or on standard output."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from haltline.cli.audit_table import DEFAULT_TABLE, AuditTable, StorageOption, options_of
from haltline.cli.common import Exit, fail, say
from haltline.schemas import expressions as re

_AT_LINE = re.compile(r" at line \d+, column \d+")


def export(
    *,
    out: Annotated[Path | None, typer.Option(help="File. Default: standard output.", metavar="FILE")] = None,
    form: Annotated[
        str, typer.Option("--format", help="parquet, csv, json (lines) or cef. Default: by the file's extension.")
    ] = "",
    to: Annotated[str | None, typer.Option(help="URL to post to as JSON, 500 rows at a time.", metavar="URL")] = None,
    header: Annotated[list[str] | None, typer.Option(help="Header of --to, such as 'Authorization: Bearer X'.")] = None,
    where: Annotated[str, typer.Option(help="Only rows of this SQL condition.", metavar="SQL")] = "true",
    table: AuditTable = DEFAULT_TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Export the audit, or a part of it, to a file, a pipe or a SIEM.

    Example: haltline audit export --where "level = 'KILL'" --out kills.csv

    Example: haltline audit export --format cef --where "kind = 'decision'" | nc siem 514
    """
    from deltalake.exceptions import DeltaError

    from haltline.streams.audit import export as exporting
    from haltline.streams.audit.query import QueryFailed

    form = form or (exporting.form_of(out) if out is not None else "json")
    if form not in exporting.FORMATS:
        fail(f"--format: expected one of {', '.join(exporting.FORMATS)}, got {form!r}", Exit.USAGE)
    sql = f'SELECT * FROM audit WHERE (\n{where}\n) ORDER BY "timestamp_ms", "topic", "partition", "offset"'
    options = options_of(storage_option)
    try:
        if to is not None:
            headers = {name.strip(): value.strip() for name, _, value in (h.partition(":") for h in header or [])}
            rows = exporting.post(exporting.rows_of(table, sql, options), to, headers)
        elif out is not None:
            rows = _write_beside(out, lambda file: exporting.write_file(table, sql, file, form, options))
        else:
            rows = exporting.write_file(table, sql, sys.stdout.buffer, form, options)
    except QueryFailed as error:  # only the condition of the SQL comes from the caller
        reason = _AT_LINE.sub("", str(error).replace("audit query: ", f"--where {where!r:.100}: "))
        fail(f"audit export: {reason}", Exit.USAGE)
    except (OSError, DeltaError, ValueError) as error:
        fail(f"audit export: {error}", Exit.USAGE)
    say(f"{rows} rows") if out is not None or to is not None else sys.stdout.buffer.flush()


def _write_beside(out: Path, write: Callable[[BinaryIO], int]) -> int:
    """Write a file completely or not at all: on failure, the earlier content stays."""
    if out.exists() and not out.is_file():  # a pipe or a terminal
        with out.open("wb") as file:
            return write(file)
    beside = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            rows = write(file)
        beside.replace(out)
    finally:
        beside.unlink(missing_ok=True)
    return rows


def register(audit: typer.Typer) -> None:
    """Adds the command to the group `audit`."""
    audit.command(rich_help_panel="Query")(export)
