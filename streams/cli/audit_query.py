"""`haltline audit query`, `ask` and `story`: questions to the audit table."""

import csv
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.table import Table

from haltline.streams.cli.common import AsJson, Exit, console, fail, print_json, printable

AuditTable = Annotated[
    str,
    typer.Option(
        envvar="HALTLINE_AUDIT_TABLE", help="A folder, or the URI of a table in a store (s3://...).", metavar="DIR"
    ),
]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(help="For a store, such as AWS_REGION=eu-north-1; may be repeated.", metavar="NAME=VALUE"),
]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
DEFAULT_TABLE = ".haltline/audit"


def query(
    sql: Annotated[str, typer.Argument(help="A SELECT on the table `audit`.", metavar="SQL")],
    *,
    table: AuditTable = DEFAULT_TABLE,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Ask the audit table in SQL; works while the sink writes.

    "offset" is a word of SQL: it wants its quotes.

    Example: haltline audit query "SELECT session_id, summary FROM audit WHERE level = 'KILL'"

    Example: haltline audit query 'SELECT topic, partition, max("offset") FROM audit GROUP BY topic, partition'
    """
    from haltline.streams.audit.query import QueryFailed, open_query  # noqa: PLC0415  # deltalake is large

    try:
        rows = open_query(table, options_of(storage_option)).rows(sql)
    except QueryFailed as error:
        fail(error, Exit.USAGE)
    _show(rows, as_json=as_json, as_csv=as_csv)


def ask(
    name: Annotated[str, typer.Argument(help="The question's name; see --list.", metavar="NAME")] = "",
    *,
    list_all: Annotated[bool, typer.Option("--list", help="Say which questions there are.")] = False,
    session: Annotated[str | None, typer.Option(help="Only of this session.", metavar="ID")] = None,
    agent: Annotated[str | None, typer.Option(help="Only of this agent.", metavar="ID")] = None,
    since: Annotated[
        str, typer.Option("--from", help="A time, or how long ago (-7d).", metavar="MOMENT", show_default=False)
    ] = "",
    until: Annotated[
        str, typer.Option("--to", help="A time, or how long ago.", metavar="MOMENT", show_default=False)
    ] = "",
    limit: Annotated[int, typer.Option(help="The first so many rows.", min=1)] = 50,
    table: AuditTable = DEFAULT_TABLE,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Ask a ready question: trips by rule, top targets, time to stop, spend by agent, approvals, precision.

    Example: haltline audit ask trips --from -7d

    Example: haltline audit ask spend --csv > spend.csv
    """
    from haltline.streams.audit.query import QueryFailed, open_query  # noqa: PLC0415  # deltalake is large
    from haltline.streams.audit.questions import QUESTIONS, sql_of  # noqa: PLC0415
    from haltline.streams.replay.moments import BadMoment, parse_moment  # noqa: PLC0415

    named = [{"name": one, "tells": question.what} for one, question in QUESTIONS.items()]
    named.append({"name": "story", "tells": "what is known of one session, in its order (--session)"})
    if list_all:
        _show(named, as_json=as_json, as_csv=as_csv)
        return
    if name == "story":
        if session is None:
            fail("audit ask story: wanted --session, came none", Exit.USAGE)
        story(session, table=table, storage_option=storage_option, as_json=as_json, as_csv=as_csv)
        return
    if name not in QUESTIONS:
        fail(f"audit ask: wanted one of {', '.join(one['name'] for one in named)}, came {name!r}", Exit.USAGE)
    now_ms = time.time_ns() // 1_000_000
    try:
        start, end = (parse_moment(text, now_ms).time_ms for text in (since, until))
        sql = sql_of(name, session_id=session, agent_id=agent, since_ms=start, until_ms=end, limit=limit)
        rows = open_query(table, options_of(storage_option)).rows(sql)
    except (QueryFailed, BadMoment) as error:
        fail(error, Exit.USAGE)
    _show(rows, as_json=as_json, as_csv=as_csv)


def story(
    session: Annotated[str, typer.Argument(help="The session.", metavar="SESSION")],
    *,
    table: AuditTable = DEFAULT_TABLE,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Tell what is known of a session, in the order in which it happened. Exit 1 when nothing is.

    Example: haltline audit story session-42
    """
    from haltline.streams.audit.query import QueryFailed, session_story  # noqa: PLC0415  # as above

    try:
        rows = session_story(table, session, options_of(storage_option))
    except QueryFailed as error:
        fail(error, Exit.USAGE)
    if not rows:
        fail(f"audit table {table}: wanted records of session {session!r}, came none", Exit.NO)
    columns = ("timestamp", "topic", "kind", "action", "outcome", "level", "summary")
    shown = rows if as_json else [{name: row[name] for name in columns} for row in rows]
    _show(shown, as_json=as_json, as_csv=as_csv)


def options_of(storage_option: Sequence[str] | None) -> dict[str, str]:
    """Store settings from `NAME=VALUE` options."""
    return dict(option.partition("=")[::2] for option in storage_option or [])


def _show(rows: Sequence[Mapping[str, Any]], *, as_json: bool, as_csv: bool) -> None:
    if as_csv:
        written = csv.writer(sys.stdout, lineterminator="\n")
        for number, row in enumerate(rows):
            if number == 0:
                written.writerow(row)
            written.writerow("" if value is None else _plain(value) for value in row.values())
        return
    if as_json:
        print_json([{name: _plain(value) for name, value in row.items()} for row in rows])
        return
    if rows:
        shown = Table(*rows[0])
        for row in rows:
            shown.add_row(*(printable(str(_plain(value))) if value is not None else "" for value in row.values()))
        console().print(shown)
    console().print(f"{len(rows)} rows", style="dim")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value.isoformat() if isinstance(value, datetime) else value


def register(audit: typer.Typer) -> None:
    """Adds the commands to the group `audit`, with those that ask the same table."""
    from haltline.streams.cli import audit_records, labels  # noqa: PLC0415  # they take the options of this module

    audit.command()(query)
    audit.command()(ask)
    audit.command()(story)
    audit_records.register(audit)
    labels.register_audit(audit)
