"""`haltline audit query` and `story`: queries of the audit table."""

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

import typer

from haltline.cli.audit_table import DEFAULT_TABLE, AuditTable, StorageOption, options_of
from haltline.cli.common import AsJson, Exit, console, fail, say, say_error
from haltline.cli.tables import print_table

AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
Limit = Annotated[
    int | None,
    typer.Option(
        help="Maximum number of rows to print. Default: 200 in a table, all with --json and --csv.",
        min=1,
        show_default=False,
    ),
]

_SHOWN = 200
_STORY_SHOWN = 500
_CELL = 200
"""Maximum characters of a cell in a human-readable table."""


def query(
    sql: Annotated[str, typer.Argument(help="A SELECT on the table `audit`.", metavar="SQL")],
    *,
    limit: Limit = None,
    table: AuditTable = DEFAULT_TABLE,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Query the audit table in SQL; works while the sink writes.

    A table ends after 200 rows, with a note; --json and --csv have every row, with a part of them in memory at a time.
    "offset" is a keyword of SQL: quote it.

    Example: haltline audit query "SELECT session_id, summary FROM audit WHERE level = 'KILL'"

    Example: haltline audit query 'SELECT topic, partition, max("offset") FROM audit GROUP BY topic, partition'
    """
    from haltline.streams.audit.query import open_query

    found = open_query(table, options_of(storage_option)).answer(sql)
    _show(found.names, found.rows, as_json=as_json, as_csv=as_csv, limit=limit)


def story(
    session: Annotated[str, typer.Argument(help="The session's id, or its beginning.", metavar="SESSION")],
    *,
    table: AuditTable = DEFAULT_TABLE,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Print the records of a session in the order of events. Exit 1 when there are none.

    Example: haltline audit story session-42
    """
    from haltline.streams.audit.query import open_query, session_in, session_story

    session = session_in(open_query(table, options_of(storage_option)).rows, session)
    rows = session_story(table, session, options_of(storage_option))
    if not rows:
        fail(f"audit table {table}: expected records of session {session!r}, got none", Exit.NO)
    columns = ("timestamp", "topic", "kind", "action", "outcome", "level", "summary")
    shown = rows if as_json else [{name: row[name] for name in columns} for row in rows]
    if not as_json and not as_csv and len(shown) > _STORY_SHOWN:  # the end of a session matters more than its beginning
        say(f"the last {_STORY_SHOWN} of {len(shown)} records; --json and --csv have all", "dim")
        shown = shown[-_STORY_SHOWN:]
    _show(tuple(shown[0]), iter(shown), as_json=as_json, as_csv=as_csv, limit=len(shown))


def _show(
    names: Sequence[str],
    rows: Iterator[Mapping[str, Any]],
    *,
    as_json: bool,
    as_csv: bool,
    limit: int | None = None,
) -> None:
    """Print the first rows, or all, and report further ones on standard error. Raises the errors of reading them."""
    if as_json and as_csv:
        fail("expected one of --json and --csv, got both", Exit.USAGE)
    if limit is None and not (as_json or as_csv):
        limit = _SHOWN
    first = islice(rows, limit)
    if as_json:
        _json(first)
    elif as_csv:
        written = csv.writer(sys.stdout, lineterminator="\n")
        written.writerow(names)
        written.writerows([_cell(value) for value in row.values()] for row in first)
    else:
        count = print_table(names, ([_cut(_cell(value)) for value in row.values()] for row in first))
        console().print(f"{count} row{'' if count == 1 else 's'}", style="dim")
    if limit is not None and next(rows, None) is not None:
        say_error(f"these are the first {limit} rows; there are more: --limit, or --json or --csv with all of a query")


def _json(rows: Iterator[Mapping[str, Any]]) -> None:
    """Print a list of objects like `print_json`, with one object in memory at a time."""
    import orjson

    option = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
    before = "["
    for row in rows:
        text = orjson.dumps({name: _plain(value) for name, value in row.items()}, default=str, option=option)
        sys.stdout.write(before + "\n  " + text.decode().replace("\n", "\n  "))
        before = ","
    sys.stdout.write("[]\n" if before == "[" else "\n]\n")


def _cut(text: str) -> str:
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}\N{HORIZONTAL ELLIPSIS}"


def _cell(value: Any) -> str:
    """A value as text; a composite one as JSON."""
    if isinstance(value, list | dict):
        import orjson

        return orjson.dumps(value, default=str).decode()
    return "" if value is None else str(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value.isoformat() if isinstance(value, datetime) else value


def register(audit: typer.Typer) -> None:
    """Adds the commands to the group `audit`."""
    for command in (query, story):
        audit.command(rich_help_panel="Query")(command)
