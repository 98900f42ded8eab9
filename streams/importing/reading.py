"""A file of one JSON value, or of one on each line, packed with gzip or not; lines are read one after the other."""

import gzip
import json
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from haltline.interventions.agent.producers.any_json import readable
from haltline.streams.importing.values import objects

MAX_VALUE_BYTES: Final = 512 * 2**20
"""Of a file that is one JSON value, unpacked. JSON lines have no such bound."""
MAX_LINE_BYTES: Final = 64 * 2**20
HEAD_LINES: Final = 1000
"""So many lines are read to see which recording a file is."""
_SHOWN = 5
_TO_JSON = 'to_json(PATH, orient="records", lines=True)'
_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)


class NotReadable(Exception):
    """A file that is no recording: where, what was expected and what was given."""


class Content(NamedTuple):
    """What is in a file."""

    value: Any
    """The one value of it; None: it has one on each line."""
    lines: "list[dict[str, Any]] | Lines"
    """The objects of the lines, or those of the value; can be read more than once."""
    head: list[dict[str, Any]]
    """The first of them."""


class Lines:
    """The objects on the lines of a file, which is read again each time, but for one of few lines."""

    def __init__(self, path: Path, skipped: list[str]) -> None:
        self._path, self._skipped, self._reported = path, skipped, 0
        self._kept: list[tuple[int, dict[str, Any]]] | None = None
        self.number = 0
        """Of the line that was read last."""

    def head(self) -> list[dict[str, Any]]:
        """The first of them, kept where they are all."""
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
    """What is in a file; what cannot be read of it is added to `skipped` by its place, when it is come to.

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
    """The file, unpacked where it is packed."""
    with path.open("rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if is_packed else path.open("rb")  # type: ignore[return-value]  # reads bytes as the other


def shown(name: str) -> str:
    """A name out of a file, as it may be printed on a terminal."""
    return "".join(one if one.isprintable() else "?" for one in name)


def shape(value: object) -> str:
    """What a value is, in few words."""
    if isinstance(value, list):
        return f"a list of {shape(value[0])}" if value else "an empty list"
    if isinstance(value, dict):
        names = shown(", ".join(sorted(map(str, value))[:_SHOWN]))
        return f"an object with {names}"[:120] if value else "an empty object"
    return f"{value!r:.40}"


def got_instead(error: ValueError) -> str:
    """What was read in place of JSON; no part of it."""
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
    """Each line, None for one beyond the bound."""
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
    """The object on a line, and why there is none."""
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
