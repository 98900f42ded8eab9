"""The bundle file: a zip of JSON lines, a report, and a manifest with the SHA-256 of each of them.

Each record is one unchanged line: position, time, key, headers and value, as text if they are UTF-8. So the chain's
digests can be computed from it, and the core can decide on it again.
"""

import base64
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import orjson

from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import Topics
from haltline.streams.replay.records import LogRecord, Span, in_order, passing
from haltline.streams.replay.table_range import record_of

Json = dict[str, Any]

VERSION: Final = 1
MANIFEST: Final = "manifest.json"
KINDS: Final = {
    "actions": "events",
    "detections": "detections",
    "interventions": "decisions",
    "feedback": "feedback",
    "incidents": "incidents",
    "commands": "commands",
    "signals": "signals",
    "control": "control",
    "policies": "policies",
    "dead-letter": "dead_letters",
}
"""The kinds and their files, by the topic's name without its prefix."""

_BYTES: Final = ("key_bytes", "raw")
_MAX_BYTES: Final = 1024 * 1024 * 1024


class BadBundle(ValueError):
    """A file is not a bundle, or was changed."""


def write_bundle(file: Path, manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Write the files and a manifest with the digest of each. Raises OSError."""
    digests = {name: sha256(data).hexdigest() for name, data in sorted(files.items())}
    whole = orjson.dumps({"v": VERSION, **manifest, "files": digests}, option=orjson.OPT_INDENT_2)
    with zipfile.ZipFile(file, "w") as out:
        for name, data in ((MANIFEST, whole), *sorted(files.items())):
            entry = zipfile.ZipInfo(name)  # without a time: equal content makes equal files
            out.writestr(entry, data, zipfile.ZIP_DEFLATED)


@dataclass
class Bundle:
    """A bundle with verified digests. Also a `Source` of the inputs of the session's worker."""

    path: Path
    name: str
    """A human-readable name."""
    session_id: str
    topics: Topics
    """The topics of its records."""
    partitions: int
    """The number of partitions of each topic."""
    manifest: Json
    files: Mapping[str, bytes]
    spans: Sequence[Span] = ()
    """No parts of the topics: the session is whole."""

    def within(self, timestamp: int) -> bool:  # noqa: ARG002  # all of it is
        """Return whether a time is before the end of the range."""
        return True

    def inputs(self) -> Iterator[LogRecord]:
        """Yield the session's records as its worker read them; its signals went to another worker.

        In long idle times between them, other sessions' records give the time: they have no key.
        """
        partition = partition_of(self.session_id, self.partitions)
        passed = [passing(self.topics, partition, int(ms)) for ms in self.manifest.get("passed", ())]
        yield from in_order([*self._own(), passed], self.topics)

    def _own(self) -> list[list[LogRecord]]:
        kinds, key = ("actions", "commands", "feedback"), self.session_id.encode()
        return [[r for _, r in self._of(kind) if r.key == key] for kind in kinds]

    def decided(self) -> Iterator[LogRecord]:
        """Yield its decisions."""
        yield from (record for _, record in self._of("interventions"))

    def incidents(self) -> Iterator[LogRecord]:
        """Yield its incidents."""
        yield from (record for _, record in self._of("incidents"))

    def policies(self) -> Iterator[LogRecord]:
        """Yield the published documents."""
        yield from (record for _, record in self._of("policies"))

    def json(self, name: str) -> Any:
        """Return the content of a file of one JSON value, or of one per line. Raises BadBundle."""
        try:
            data = self.files[name]
            return [orjson.loads(line) for line in data.splitlines()] if ".jsonl" in name else orjson.loads(data)
        except (KeyError, orjson.JSONDecodeError) as error:
            raise BadBundle(f"{self.path}: {name}: expected JSON, got {error!r}") from None

    def rows(self) -> Iterator[Json]:
        """Yield every record as a row of the audit, from which its digest is computed."""
        for topic in KINDS:
            yield from (row for row, _ in self._of(topic))

    def _of(self, topic: str) -> Iterator[tuple[Json, LogRecord]]:
        for line in self.json(f"{KINDS[topic]}.jsonl"):
            row = {**line, **{name: _bytes(line[name]) for name in _BYTES}}
            yield row, record_of(row, row["topic"], row["partition"])


def read_bundle(path: Path) -> Bundle:
    """Read a bundle that matches its manifest.

    Raises:
        BadBundle: it is not a bundle, or a file in it differs from the manifest.
        OSError: it cannot be read.

    """
    try:
        with zipfile.ZipFile(path) as found:
            if (size := sum(entry.file_size for entry in found.infolist())) > _MAX_BYTES:
                raise BadBundle(f"{path}: expected at most {_MAX_BYTES} bytes unpacked, got {size}")
            files = {name: found.read(name) for name in found.namelist()}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise BadBundle(f"{path}: expected a zip, got {error}") from None
    try:
        manifest = orjson.loads(files.pop(MANIFEST))
        digests = dict(manifest["files"])
    except (KeyError, TypeError, ValueError) as error:
        raise BadBundle(f"{path}: expected {MANIFEST} with the digests of files, got {error!r}") from None
    if manifest.get("v") != VERSION:
        raise BadBundle(f"{path}: {MANIFEST}: v: expected {VERSION}, got {manifest.get('v')!r}")
    for name in sorted(digests.keys() | files.keys()):
        got = sha256(files[name]).hexdigest() if name in files else None
        if digests.get(name) != got:
            raise BadBundle(f"{path}: {name}: expected SHA-256 {digests.get(name)}, got {got}: it was changed")
    try:
        session, topics, partitions = (
            str(manifest["session_id"]),
            Topics(manifest["prefix"]),
            int(manifest["partitions"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadBundle(f"{path}: {MANIFEST}: expected session, prefix and partitions, got {error!r}") from None
    return Bundle(path, f"bundle {path}", session, topics, partitions, manifest, files)


def lines_of(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows of the audit as lines of a bundle, one record a line."""
    fields = ("sink", "topic", "partition", "offset", "timestamp_ms", "key", "headers", "kind", "summary")
    return b"".join(
        orjson.dumps({**{name: row[name] for name in fields}, **{name: _text(row[name]) for name in _BYTES}}) + b"\n"
        for row in rows
    )


def _text(data: bytes | None) -> str | Json | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _bytes(content: str | Json | None) -> bytes | None:
    if isinstance(content, dict):
        return base64.b64decode(content["base64"])
    return None if content is None else content.encode()
