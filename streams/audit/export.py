"""The export of the audit, or a part of it: Parquet, CSV, JSON lines, CEF for a SIEM, or posts to a URL."""

import csv
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
    return _LINES[form](found.names, map(_plain_row, found.rows), out)


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


def _csv(names: Sequence[str], rows: Iterable[Row], out: BinaryIO) -> int:
    count = 0
    writer = csv.writer(_Text(out))
    writer.writerow(names)
    for row in rows:
        writer.writerow([orjson.dumps(v).decode() if isinstance(v, list) else v for v in row.values()])
        count += 1
    return count


def _lines(line: Callable[[Row], bytes]) -> "_Writer":
    def write(_names: Sequence[str], rows: Iterable[Row], out: BinaryIO) -> int:
        count = 0
        for row in rows:
            out.write(line(row) + b"\n")
            count += 1
        return count

    return write


class _Text:
    """A text stream for `csv` over a binary one."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        return self._out.write(text.encode())


_Writer = Callable[[Sequence[str], Iterable[Row], BinaryIO], int]
_LINES: Final[Mapping[str, _Writer]] = {
    "csv": _csv,
    "json": _lines(orjson.dumps),
    "cef": _lines(lambda row: cef(row).encode()),
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
