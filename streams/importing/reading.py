"""Reading of files of one JSON value or of JSON lines, optionally compressed with gzip; lines are streamed."""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from haltline.interventions.agent.producers.any_json import readable
from haltline.interventions.agent.user_files import open_file
from haltline.streams.importing.values import objects
from haltline.streams.json_text import has_too_many

MAX_VALUE_BYTES: Final = 512 * 2**20
"""The size limit of a decompressed file of one JSON value, and of what is passed over as one line. JSON lines have no
such limit together."""
MAX_VALUES: Final = 20_000_000
MAX_LINE_BYTES: Final = 64 * 2**20
HEAD_LINES: Final = 1000
"""The number of lines that are read to detect the format."""
MAX_SKIPPED: Final = 1000
_SHOWN = 5
_TO_JSON = 'to_json(PATH, orient="records", lines=True)'
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)


class NotReadable(Exception):
    """A file is not a recording: which file, what was expected and what was given."""


class Empty(NotReadable):
    """There is nothing in the file."""


class Skipped(list[str]):
    """The places of a file that could not be read, with the reasons: the first ones, and how many more there are."""

    def __init__(self) -> None:
        super().__init__()
        self._more = 0

    def append(self, place: str) -> None:
        """Add a place."""
        self.extend((place,))

    def extend(self, places: Iterable[str]) -> None:
        """Add places."""
        for place in places:
            if len(self) < MAX_SKIPPED:
                super().append(place)
            else:
                self._more += 1

    def close(self) -> None:
        """Add the number of the places that are left out."""
        if self._more:
            super().append(f"and {self._more} more places")


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
    """Complete when all events are read."""

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
        self._bytes = 0

    def head(self) -> list[dict[str, Any]]:
        """Return the first objects. If these are all, they are kept in memory."""
        kept: list[tuple[int, dict[str, Any]]] = []
        for value in self:
            kept.append((self.number, value))
            if len(kept) >= HEAD_LINES or self._bytes > MAX_LINE_BYTES:
                break
        else:
            self._kept = kept
        return [value for _, value in kept]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self._kept is not None:
            for number, kept in self._kept:
                self.number = number
                yield kept
            return
        good = bad = self._bytes = 0
        with opened(self._path) as file:
            for number, line in enumerate(self._while_readable(file), start=1):
                value, why = _object_of(line)
                is_over = why is not None and bad >= max(HEAD_LINES, good)
                if is_over:
                    why = "expected JSON lines, got more others than these; the rest is not read"
                if why is not None and number > self._reported:
                    self._skipped.append(f"line {number}: {why}")
                self._reported = max(self._reported, number)
                if is_over:
                    return
                self._bytes += len(line or b"")
                good, bad = good + (value is not None), bad + (why is not None)
                if value is not None:
                    self.number = number
                    yield value

    def _while_readable(self, file: IO[bytes]) -> Iterator[bytes | None]:
        """Yield the lines until the file is broken; what came before stays."""
        try:
            yield from _bounded_lines(file, self._path)
        except NotReadable as error:
            why = str(error).removeprefix(f"{self._path}: ")
            if why not in self._skipped:
                self._skipped.append(why)


def content_of(path: Path, skipped: list[str]) -> Content:
    """Return the content of a file. Unreadable places are added to `skipped` when they are reached.

    Raises:
        NotReadable: it is neither JSON nor JSON lines, damaged, or larger than a bound.
        OSError: it cannot be read.

    """
    with open_file(path) as file:
        if file.read(4) == b"PAR1":
            raise NotReadable(f"{path}: expected JSON, got a Parquet file; write the dataframe with {_TO_JSON}")
    with opened(path) as file:
        first = [line for line in islice(_bounded_lines(file, path), 2) if line and line.strip()]
    lines = Lines(path, skipped)
    if len(first) == 2 and _object_of(first[0])[0] is not None:
        head = lines.head()
        if len(skipped) > len(head):
            raise NotReadable(f"{path}: expected JSON, or JSON lines; {skipped[0]}")
        return Content(None, lines, head)
    with opened(path) as file:
        raw = _read(file, path)
    if not raw.strip():
        raise Empty(f"{path}: expected JSON, or JSON lines, got an empty file")
    try:
        value = readable(raw)
    except ValueError as whole:
        head = lines.head()
        if len(skipped) > len(head):
            raise NotReadable(f"{path}: expected JSON, or JSON lines, got {got_instead(whole)}") from None
        return Content(None, lines, head)
    found = objects(value if isinstance(value, list) else [value])
    return Content(value, found, found)


def opened(path: Path) -> IO[bytes]:
    """Open the file, decompressed if it is compressed."""
    with open_file(path) as file:
        is_packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if is_packed else open_file(path)  # type: ignore[return-value]  # reads bytes as the other


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
            part, size = line, len(line)
            while not part.endswith(b"\n") and len(part) > MAX_LINE_BYTES:
                if size > MAX_VALUE_BYTES:
                    raise NotReadable(f"{path}: expected lines of at most {MAX_LINE_BYTES} bytes, got an endless one")
                part = file.readline(MAX_LINE_BYTES + 1)
                size += len(part)
            yield line if len(line) <= MAX_LINE_BYTES else None
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


def _read(file: IO[bytes], path: Path) -> bytes:
    try:
        raw = file.read(MAX_VALUE_BYTES + 1)
    except _DAMAGED as error:
        raise NotReadable(f"{path}: expected a whole gzip file, got {error}") from None
    if len(raw) > MAX_VALUE_BYTES:
        raise NotReadable(
            f"{path}: expected at most {MAX_VALUE_BYTES} bytes of one JSON value, got more; use JSON lines"
        )
    if has_too_many(raw, MAX_VALUES):
        raise NotReadable(f"{path}: expected at most {MAX_VALUES} values in one of JSON, got more; use JSON lines")
    return raw
