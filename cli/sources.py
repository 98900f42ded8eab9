"""The sources of `replay` and `backtest`: a running Kafka, the audit table, or a file; each with a range."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from haltline.cli.audit_table import DEFAULT_TABLE, AuditTable, StorageOption, options_of
from haltline.cli.cluster import Cluster, with_options
from haltline.cli.common import Exit, fail, say_error
from haltline.schemas.topics import Topics

if TYPE_CHECKING:
    from haltline.streams.replay.files import FileRange
    from haltline.streams.replay.kafka_range import KafkaRange
    from haltline.streams.replay.records import Missing
    from haltline.streams.replay.table_range import TableRange

    Range = KafkaRange | TableRange | FileRange

KAFKA = "kafka"
AUDIT = "audit"

Since = Annotated[
    str,
    typer.Option(
        "--from",
        help="Start of the range: a time (2026-11-20T10:00:00Z), how long ago (-90m), or offsets by partition of the "
        "topic actions (0:1200,1:1187; kafka only). Default: the oldest record.",
        metavar="MOMENT",
        show_default=False,
    ),
]
Until = Annotated[
    str,
    typer.Option("--to", help="End of the range, exclusive. Default: now.", metavar="MOMENT", show_default=False),
]
Sink = Annotated[
    str | None,
    typer.Option(help="The sink whose rows are read, if several sinks write the audit table.", metavar="NAME"),
]


_OPTIONS: Final[dict[str, Any]] = {
    "since": Since, "until": Until, "table": AuditTable, "storage_option": StorageOption, "sink": Sink,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Where:
    """The options of a source besides its name and its cluster."""

    since: str = ""
    until: str = ""
    table: str = DEFAULT_TABLE
    storage_option: Sequence[str] | None = None
    sink: str | None = None


with_source = with_options("where", Where, _OPTIONS, vars(Where()))
"""A decorator: the command with these options in place of its parameter `where`."""


@contextmanager
def opened(source: str, where: Where, at: Cluster) -> "Iterator[Range]":
    """A source with a fixed range; exits if there is none."""
    from haltline.streams.replay.files import FileRange
    from haltline.streams.replay.kafka_range import KafkaRange
    from haltline.streams.replay.table_range import TableRange
    from haltline.streams.replay.time_range import parse_range

    now_ms = time.time_ns() // 1_000_000
    try:
        start, end = parse_range(where.since, where.until, now_ms)
        if source == KAFKA:
            with KafkaRange(at.bootstrap, at.topics, start, end, client=at.client_config) as found:
                yield found
        elif is_table(source):
            uri = where.table if source == AUDIT else source
            options = options_of(where.storage_option)
            yield TableRange(uri, topics_of(source, at), start, end, sink=where.sink, storage_options=options)
        elif where.since or where.until:
            fail(f"{source}: expected no --from or --to with a file, got one", Exit.USAGE)
        else:
            yield FileRange(Path(source), topics_of(source, at))
    except OSError as error:
        if isinstance(error, ConnectionError):
            raise
        fail(f"{source}: {error.strerror or error}; expected kafka, audit, a table or a file", Exit.USAGE)


def is_table(source: str) -> bool:
    """Return whether a source is an audit table: the word `audit`, a URI, or a folder with a table's log."""
    return source == AUDIT or "://" in source or (Path(source) / "_delta_log").is_dir()


def say_missing(missing: "Missing") -> None:
    """Report on standard error which records of a range cannot be read: results may differ without them."""
    if any(missing):
        say_error(f"not there: {missing}")


def topics_of(source: str, at: Cluster) -> Topics:
    """Return the topics of a source's records; those of a running Kafka are in use."""
    return at.topics if source == KAFKA else Topics(at.prefix)
