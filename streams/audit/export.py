"""The export of the audit, or a part of it: Parquet, CSV, JSON lines, CEF for a SIEM, or posts to a URL."""

import csv
import io
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson
from arro3.io import write_parquet

from haltline.streams.audit.engine import arrow_answer, open_table
from haltline.streams.audit.query import open_query

FORMATS: Final = ("parquet", "csv", "json", "cef")
POST_ROWS: Final = 500

_POST_WITHIN_S: Final = 30.0
_CEF_SEVERITY: Final = {"low": 3, "medium": 5, "high": 8, "critical": 10}
_CEF_FIELDS: Final = (
    ("rt", "timestamp_ms"), ("suser", "by"), ("cs1", "session_id"), ("cs2", "agent_id"), ("cs3", "detector"),
    ("cs4", "level"), ("cs5", "decision_id"), ("act", "action"), ("outcome", "outcome"), ("reason", "reason"),
    ("externalId", "event_id"), ("msg", "summary"),
)  # fmt: skip
_CEF_LABELS: Final = "cs1Label=session cs2Label=agent cs3Label=detector cs4Label=level cs5Label=decision"

Row = Mapping[str, Any]


def write_file(uri: str, sql: str, out: BinaryIO, form: str, storage_options: Mapping[str, str] | None = None) -> int:
    """Write the answer of a SELECT in one of `FORMATS`. Returns the number of rows. Parquet is built in memory."""
    if form == "parquet":
        table = arrow_answer(open_table(uri, storage_options), sql)
        write_parquet(table, out)
        return int(table.num_rows)
    found = open_query(uri, storage_options).answer(sql)
    if form == "csv":
        out.write(_csv(found.names))
    count, line = 0, _LINES[form]
    for row in found.rows:
        out.write(line(_plain_row(row)))
        count += 1
    return count


def rows_of(uri: str, sql: str, storage_options: Mapping[str, str] | None = None) -> Iterator[Row]:
    """Yield the rows of a SELECT as plain JSON values: times as RFC 3339, bytes as text with invalid UTF-8 escaped."""
    return map(_plain_row, open_query(uri, storage_options).iter_rows(sql))


def post(rows: Iterable[Row], url: str, headers: Mapping[str, str] | None = None) -> int:
    """Post rows as JSON arrays of at most `POST_ROWS`, each confirmed before the next. Returns the number of rows.

    Raises:
        OSError: the receiver refused them; earlier posts stay there.

    """
    count, waiting = 0, iter(rows)
    while some := list(islice(waiting, POST_ROWS)):
        all_headers = {"Content-Type": "application/json", **(headers or {})}
        request = urllib.request.Request(url, data=orjson.dumps(some), headers=all_headers, method="POST")
        with urllib.request.urlopen(request, timeout=_POST_WITHIN_S):
            count += len(some)
    return count


def cef(row: Row) -> str:
    """Return one row in the Common Event Format, version 0."""
    name = row.get("code") or row.get("kind") or "record"
    severity = _CEF_SEVERITY.get(str(row.get("severity")), 1)
    extension = " ".join(
        f"{field}={_escaped(str(row[column]), '=')}" for field, column in _CEF_FIELDS if row.get(column) is not None
    )
    what, kind = _escaped(str(name), "|"), _escaped(str(row.get("kind") or "record"), "|")
    return f"CEF:0|haltline|haltline|1|{kind}|{what}|{severity}|{_CEF_LABELS} {extension}"


def _escaped(text: str, separator: str) -> str:
    for one in ("\\", separator):
        text = text.replace(one, f"\\{one}")
    return text.replace("\r", "").replace("\n", "\\n")


def _csv(cells: Iterable[Any]) -> bytes:
    line = io.StringIO()
    csv.writer(line).writerow([orjson.dumps(cell).decode() if isinstance(cell, list) else cell for cell in cells])
    return line.getvalue().encode()


_LINES: Final[Mapping[str, Callable[[Row], bytes]]] = {
    "csv": lambda row: _csv(row.values()),
    "json": lambda row: orjson.dumps(row) + b"\n",
    "cef": lambda row: cef(row).encode() + b"\n",
}


def _plain_row(row: Row) -> Row:
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, datetime | date):
        return value.isoformat()
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def form_of(file: Path) -> str:
    """Return the format of a file by its suffix: `.parquet`, `.csv`, `.cef`; any other is JSON lines."""
    ending = file.suffix.removeprefix(".")
    return ending if ending in FORMATS else "json"
