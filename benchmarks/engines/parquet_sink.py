"""A plain consumer that writes Parquet: the cost of a sink without guarantees.

It reads a thousand records at a time, and after a number of rows writes one file and then commits its offsets: if it is
killed in between, records are duplicated. It has no table, no hash chain and no signatures, and ends at a record that
is not JSON. `columns` extracts the fields that haltline's sink extracts; `raw` keeps position, time, key and value.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson
from arro3.core import Array, DataType, Field, RecordBatch, Schema, Table, list_array
from arro3.io import write_parquet
from confluent_kafka import Message

from benchmarks.engines import clients

_TEXT, _LONG, _INT, _DOUBLE, _BYTES = (
    DataType.string(), DataType.int64(), DataType.int32(), DataType.float64(), DataType.binary(),
)  # fmt: skip
_TEXTS: Final = DataType.list(Field("element", _TEXT, nullable=True))
_RAW: Final = {
    "topic": _TEXT, "partition": _INT, "offset": _LONG, "timestamp_ms": _LONG, "key": _TEXT, "raw": _BYTES,
}  # fmt: skip
_FIELDS: Final = {
    "kind": _TEXT, "time": _LONG, "event_id": _TEXT, "call_id": _TEXT, "session_id": _TEXT, "agent_id": _TEXT,
    "parent_session_id": _TEXT, "root_session_id": _TEXT, "mission_id": _TEXT, "seq": _LONG, "action": _TEXT,
    "effect": _TEXT, "outcome": _TEXT, "error": _TEXT, "duration_ms": _DOUBLE,
}  # fmt: skip
_USED: Final = {"input_tokens": _LONG, "output_tokens": _LONG, "cost_usd": _DOUBLE}
COMPRESSION: Final = "zstd(3)"
_BATCH_ROWS: Final = 4096
_NONE: Final[dict[str, Any]] = {}


def _raw_of(message: Message) -> tuple[Any, ...]:
    key = message.key()
    return (
        message.topic(), message.partition(), message.offset(), message.timestamp()[1],
        None if key is None else key.decode(), message.value(),
    )  # fmt: skip


def table(messages: list[Message], *, columns: bool) -> Table:
    """The messages as a table; with `columns`, including the fields of their JSON."""
    types = _RAW | (_FIELDS | _USED if columns else {})
    schema = Schema([Field(name, type_, nullable=True) for name, type_ in types.items()])
    if columns:
        schema = schema.append(Field("targets", _TEXTS, nullable=True))
    batches = []
    for first in range(0, len(messages), _BATCH_ROWS):
        some = messages[first : first + _BATCH_ROWS]
        cells = list(zip(*map(_raw_of, some), strict=True))
        events = [orjson.loads(message.value() or b"") for message in some] if columns else []
        for name in _FIELDS if columns else ():
            cells.append(tuple(event.get(name) for event in events))
        for name in _USED if columns else ():
            cells.append(tuple((event.get("usage") or _NONE).get(name) for event in events))
        arrays = [Array(column, type=type_) for column, type_ in zip(cells, types.values(), strict=True)]
        if columns:
            targets = [event.get("targets") or [] for event in events]
            ends = [0]
            for one in targets:
                ends.append(ends[-1] + len(one))
            flat = Array([text for one in targets for text in one], type=_TEXT)
            arrays.append(list_array(Array(ends, type=_INT), flat, type=_TEXTS))
        batches.append(RecordBatch(arrays, schema=schema))
    return Table.from_batches(batches, schema=schema)


def run(bootstrap: str, topic: str, group: str, folder: Path, rows: int, *, columns: bool) -> None:
    """Run until SIGTERM."""
    stopped = clients.stopping()
    folder.mkdir(parents=True)
    consumer = clients.committing_consumer(bootstrap, group)
    consumer.subscribe([topic])
    waiting: list[Message] = []
    files = 0
    while not stopped.is_set():
        actual = consumer.consume(1000, timeout=0.5)
        for message in actual:
            if (error := message.error()) is not None:
                raise RuntimeError(f"{topic}: expected a record, got {error}")
        waiting += actual
        if waiting and (len(waiting) >= rows or not actual):
            write_parquet(table(waiting, columns=columns), folder / f"{files:06d}.parquet", compression=COMPRESSION)
            consumer.commit(asynchronous=False)
            waiting.clear()
            files += 1
    consumer.close()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = clients.options(__doc__, "topic")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=50_000, help="of a file (%(default)s)")
    parser.add_argument("--variant", choices=["columns", "raw"], default="columns")
    args = parser.parse_args(arguments)
    run(args.bootstrap, args.topic, args.group, args.folder, args.rows, columns=args.variant == "columns")
    return 0


if __name__ == "__main__":
    sys.exit(main())
