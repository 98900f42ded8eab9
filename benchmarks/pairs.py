"""Parts of haltline compared with a peer or plain Python, in turns in one process, by processor time; no broker.

Other load affects both of a pair, and the best of several turns least of all. So these ratios can be compared between
runs under any load, with the same processor and version of Python.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import cycle, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Final

from arro3.io import write_parquet
from confluent_kafka import Message

from benchmarks import overhead
from benchmarks.core import decide
from benchmarks.engines import parquet_sink
from benchmarks.load import Load
from benchmarks.runaways import FAMILIES
from benchmarks.sink import padded
from haltline.schemas.events import ActionEvent
from haltline.schemas.keys import make_keys
from haltline.schemas.topics import Topics
from haltline.streams.audit.consuming import kafka_records
from haltline.streams.audit.reading import Reader
from haltline.streams.audit.redacting import Redaction
from haltline.streams.audit.signing import load_signer
from haltline.streams.audit.table import DeltaAuditTable
from haltline.streams.audit.writer import AuditWriter, Place
from haltline.streams.engine.core import Core, SessionState
from haltline.streams.runtime.garbage import collecting

_ROUNDS: Final = 5
_TURNS: Final = 3
_PIECES: Final = 8
_OF_A_CASE: Final = 16
_PIECE: Final = 20
_ROWS: Final = 10_000
_AT_ONCE: Final = 500
_START_MS: Final = 1_795_000_000_000
_TOPIC: Final = Topics().actions


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The best turn of each round, in microseconds of processor time per event, row or call."""

    name: str
    beside: str
    ours_us: list[float]
    peer_us: list[float]


def measure(scratch: Path) -> Iterator[Pair]:
    """Measure every pair, in about 20 s."""
    events = [event for family in FAMILIES for event in family.case(1).events[:_OF_A_CASE]]
    texts = [event.model_dump_json(exclude_none=True).encode() for event in events]
    core, plain = lambda: _core(events), lambda: _plain(texts)
    yield _in_turns("core, every default rule", core, "plain Python over the same events", plain, len(events))
    took = overhead.in_turns(_ROUNDS * _PIECES)
    best = {
        way: [min(cpu_ns for _, cpu_ns in of[first : first + _PIECES]) / 1000 for first in range(0, len(of), _PIECES)]
        for way, of in took.items()
    }
    for way in (overhead.ASYNC, overhead.LOCAL):
        name = f"guarded call, {way}"
        yield Pair(name=name, beside=overhead.PEER, ours_us=best[way], peer_us=best[overhead.PEER])
    padded_events = padded(Load(events=_ROWS // 2, sessions=100, start_ms=_START_MS))
    values = [*(sent.value for sent in padded_events), *islice(cycle(texts), _ROWS // 2)]
    messages = [
        Message(topic=_TOPIC, partition=0, offset=at, key=b"k", value=value, timestamp=(1, _START_MS + at))
        for at, value in enumerate(values)
    ]
    make_keys(scratch / "pairs.pem")
    sink, peer = lambda: _sink(messages, scratch), lambda: _parquet(messages, scratch)
    yield _in_turns("audit sink without Kafka, redacted", sink, "rows to Parquet", peer, _ROWS)


def _in_turns(
    name: str, ours: Callable[[], Iterator[None]], beside: str, peer: Callable[[], Iterator[None]], units: int
) -> Pair:
    """Return the best turn of each piece of work: a short piece is rarely interrupted in every turn."""
    with collecting() as collector:

        def pieces_us(work: Callable[[], Iterator[None]]) -> list[float]:
            took, began = list[float](), time.process_time()
            for _ in work():
                took.append((time.process_time() - began) * 1e6)
                began = time.process_time()
            collector.tick()
            return took

        pieces_us(ours), pieces_us(peer)  # creates what is created on first use
        rounds = [[(pieces_us(ours), pieces_us(peer)) for _ in range(_TURNS)] for _ in range(_ROUNDS)]
    best = [[sum(map(min, *of)) / units for of in zip(*turns, strict=True)] for turns in rounds]
    return Pair(name=name, beside=beside, ours_us=[one for one, _ in best], peer_us=[one for _, one in best])


def _core(events: Sequence[ActionEvent]) -> Iterator[None]:
    core, states = Core(), dict[str, SessionState]()
    for first in range(0, len(events), _PIECE):
        decide(core, states, events[first : first + _PIECE], first)
        yield


def _plain(texts: Sequence[bytes]) -> Iterator[None]:
    """Much Python and memory per event, like the core: both are slower when other processes use the CPU caches."""
    for first in range(0, len(texts), _PIECE):
        for text in texts[first : first + _PIECE]:
            json.dumps(deepcopy(json.loads(text)), indent=1)
        yield


def _sink(messages: Sequence[Message], scratch: Path) -> Iterator[None]:
    """The sink's work after it has read records, into a table of its own."""
    table = DeltaAuditTable(scratch / f"table-{time.monotonic_ns()}")
    signer = load_signer(scratch / "pairs.pem")
    writer = AuditWriter(table, Reader(Topics(), "audit", Redaction()), "audit", signer=signer)
    writer.assign([Place(_TOPIC, 0)])
    for first in range(0, len(messages), _AT_ONCE):
        records = kafka_records(messages[first : first + _AT_ONCE])
        for (topic, partition), some in groupby(records, itemgetter(0, 1)):
            writer.extend(Place(topic, partition), some)
    yield
    writer.flush(_START_MS)
    yield


def _parquet(messages: Sequence[Message], scratch: Path) -> Iterator[None]:
    rows = parquet_sink.table(list(messages), columns=True)
    write_parquet(rows, scratch / "peer.parquet", compression=parquet_sink.COMPRESSION)
    yield
