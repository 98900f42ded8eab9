"""Reading of files of one JSON value or of JSON lines, optionally compressed with gzip; lines are streamed."""

import gzip
import json
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from haltline.interventions.agent.integrations.any_json import readable
from haltline.streams.importing.values import objects

MAX_VALUE_BYTES: Final = 512 * 2**20
"""The size limit of a decompressed file of one JSON value. JSON lines have no such limit."""
MAX_LINE_BYTES: Final = 64 * 2**20
HEAD_LINES: Final = 1000
"""The number of lines that are read to detect the format."""
_SHOWN = 5
_TO_JSON = 'to_json(PATH, orient="records", lines=True)'
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)


class NotReadable(Exception):
    """A file is not a recording: which file, what was expected and what was given."""


class Content(NamedTuple):
    """The content of a file."""

    value: Any
    """The value of the file; None: it has JSON lines."""
    lines: "list[dict[str, Any]] | Lines"
    """The objects of the lines, or of the value; can be iterated several times."""
    head: list[dict[str, Any]]
    """The first objects."""


class Source(NamedTuple):
    """A file with its content, and the report of its unreadable parts."""

    path: Path
    content: Content
    skipped: list[str]
    """The places that could not be read, with the reasons; complete when all events are read."""

    @property
    def lines(self) -> "list[dict[str, Any]] | Lines":
        """The objects of its lines, or of its value."""
        return self.content.lines

    def objects(self, where: str, values: object) -> list[dict[str, Any]]:
        """Return the objects of a list; anything else is reported."""
        if not isinstance(values, list):
            self.skipped.append(f"{where}: expected a list, got {shape(values)}")
            return []
        listed: list[Any] = values
        self.skipped.extend(
            f"{where}[{n}]: expected an object, got {shape(v)}" for n, v in enumerate(listed) if not isinstance(v, dict)
        )
        return objects(listed)


class Lines:
    """The objects on the lines of a file, which is read again for each iteration unless it has few lines."""

    def __init__(self, path: Path, skipped: list[str]) -> None:
        self._path, self._skipped, self._reported = path, skipped, 0
        self._kept: list[tuple[int, dict[str, Any]]] | None = None
        self.number = 0
        """The number of the line that was read last."""

    def head(self) -> list[dict[str, Any]]:
        """Return the first objects. If these are all, they are kept in memory."""
        kept = [(self.number, value) for value in islice(self, HEAD_LINES)]
        if len(kept) < HEAD_LINES:
            self._kept = kept
        return [value for _, value in kept]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self._kept is not None:
            for number, kept in self._kept:
                self.number = number
                yield kept
            return
        with opened(self._path) as file:
            for number, line in enumerate(_bounded_lines(file, self._path), start=1):
                value, why = _object_of(line)
                if why is not None and number > self._reported:
                    self._skipped.append(f"line {number}: {why}")
                self._reported = max(self._reported, number)
                if value is not None:
                    self.number = number
                    yield value


def content_of(path: Path, skipped: list[str]) -> Content:
    """Return the content of a file. Unreadable places are added to `skipped` when they are reached.

    Raises:
        NotReadable: it is neither JSON nor JSON lines, damaged, or larger than a bound.
        OSError: it cannot be read.

    """
    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            raise NotReadable(f"{path}: expected JSON, got a Parquet file; write the dataframe with {_TO_JSON}")
    with opened(path) as file:
        first = [line for line in islice(_bounded_lines(file, path), 2) if line and line.strip()]
    is_lines = len(first) == 2 and _object_of(first[0])[0] is not None
    if is_lines:
        lines = Lines(path, skipped)
        head = lines.head()
        if len(skipped) > len(head):
            raise NotReadable(f"{path}: expected JSON, or JSON lines; {skipped[0]}")
        return Content(None, lines, head)
    with opened(path) as file:
        raw = _read(file, path)
    try:
        value = readable(raw)
    except ValueError as whole:
        found = _of_lines(raw, skipped)
        if len(skipped) > len(found):
            raise NotReadable(f"{path}: expected JSON, or JSON lines, got {got_instead(whole)}") from None
        return Content(None, found, found)
    found = objects(value if isinstance(value, list) else [value])
    return Content(value, found, found)


def opened(path: Path) -> IO[bytes]:
    """Open the file, decompressed if it is compressed."""
    with path.open("rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if is_packed else path.open("rb")  # type: ignore[return-value]  # reads bytes as the other


def shown(name: str) -> str:
    """Return a name from a file without characters that must not be printed on a terminal."""
    return "".join(one if one.isprintable() else "?" for one in name)


def shape(value: object) -> str:
    """Return a short description of a value."""
    if isinstance(value, list):
        return f"a list of {shape(value[0])}" if value else "an empty list"
    if isinstance(value, dict):
        names = shown(", ".join(sorted(map(str, value))[:_SHOWN]))
        return f"an object with {names}"[:120] if value else "an empty object"
    return f"{value!r:.40}"


def got_instead(error: ValueError) -> str:
    """Return a description of the text that is not JSON, without any part of it."""
    match error:
        case UnicodeDecodeError():
            return f"bytes that are not UTF-8, from the one at {error.start}"
        case json.JSONDecodeError() if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated"):
            return "a text that is cut off"
        case json.JSONDecodeError():
            return f"something else from column {error.colno} of line {error.lineno}: {error.msg}"
        case _:
            return str(error)


def _bounded_lines(file: IO[bytes], path: Path) -> Iterator[bytes | None]:
    """Yield each line; None for a line that is too long."""
    try:
        while line := file.readline(MAX_LINE_BYTES + 1):
            is_whole = len(line) <= MAX_LINE_BYTES
            part = line
            while not part.endswith(b"\n") and len(part) > MAX_LINE_BYTES:
                part = file.readline(MAX_LINE_BYTES + 1)
            yield line if is_whole else None
    except _DAMAGED as error:
        raise NotReadable(f"{path}: expected a whole gzip file, got {error}") from None


def _object_of(line: bytes | None) -> tuple[dict[str, Any] | None, str | None]:
    """Return the object on a line, or the reason why there is none."""
    if line is None:
        return None, f"expected a line of at most {MAX_LINE_BYTES} bytes, got more"
    if not line.strip():
        return None, None
    try:
        value = readable(line)
    except ValueError as error:
        return None, f"expected JSON, got {got_instead(error)}"
    return (value, None) if isinstance(value, dict) else (None, f"expected an object, got {shape(value)}")


def _of_lines(raw: bytes, skipped: list[str]) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for number, line in enumerate(raw.splitlines(), start=1):
        value, why = _object_of(line)
        if why is not None:
            skipped.append(f"line {number}: {why}")
        if value is not None:
            lines.append(value)
    return lines


def _read(file: IO[bytes], path: Path) -> bytes:
    try:
        raw = file.read(MAX_VALUE_BYTES + 1)
    except _DAMAGED as error:
        raise NotReadable(f"{path}: expected a whole gzip file, got {error}") from None
    if len(raw) > MAX_VALUE_BYTES:
        raise NotReadable(
            f"{path}: expected at most {MAX_VALUE_BYTES} bytes of one JSON value, got more; use JSON lines"
        )
    return raw
