"""The collection of one session's bundle from the audit table."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from typing import Any, Final, TypeVar

import orjson

from haltline.detectors.framework.plugins import NO_PLUGINS, Plugins
from haltline.schemas import wire
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent
from haltline.schemas.partitioner import partition_of
from haltline.schemas.policy import Policy
from haltline.streams.audit.chain import CHECKPOINTS, OF_KAFKA, STATEMENT
from haltline.streams.audit.engine import NoRecords
from haltline.streams.audit.incident import stop_of
from haltline.streams.audit.query import QueryFailed, literal
from haltline.streams.incident.bundle import KINDS, lines_of
from haltline.streams.incident.proof import LINK
from haltline.streams.incident.report import report_html
from haltline.streams.replay.policies import one, published
from haltline.streams.replay.records import LogRecord, in_order, passing
from haltline.streams.replay.replay_worker import InForce, Replay
from haltline.streams.replay.table_range import TableRange, record_of

Json = dict[str, Any]
_T = TypeVar("_T")

POLICY: Final = "policy.json"
STATE: Final = "state.json"
PROOF: Final = "proof.jsonl"
CHECKPOINTS_FILE: Final = "checkpoints.jsonl"
REPORT: Final = "report.html"

_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True)
class Collected:
    """The content of a bundle."""

    manifest: Json
    files: dict[str, bytes]
    stop: Decision | None
    unsigned: int
    """The number of partitions in which no signed statement follows the session's records."""


def collect(
    table: TableRange,
    session_id: str,
    *,
    policy: Policy | None = None,
    name: str = "default",
    plugins: Plugins = NO_PLUGINS,
) -> Collected:
    """Collect everything about a session; `policy` is that of a worker with a policy file.

    Raises:
        NoRecords: there are no records of it.
        QueryFailed: the policy that decided is not known.

    """
    rows = _rows(table, session_id)
    decisions = _once([*_readable(lambda row: wire.decode(Decision, row["raw"]), rows["interventions"])])
    events = [*_readable(_event, rows["actions"])]
    if not events and not decisions:
        raise NoRecords(f"{table.name}: expected records of session {session_id!r}, got none")
    stop = stop_of(decisions) or next((d for d in reversed(decisions) if d.level >= Level.PAUSE), None)
    policies = list(table.policies())
    in_force = one(policy, plugins) if policy is not None else published(policies, name, plugins)
    _require_known(in_force, decisions)
    inputs = list(in_order(_inputs(session_id, rows), table.topics))
    passed = _passed(table, inputs, session_id, min(int(one.core.policy.session_ttl_h * _HOUR_MS) for one in in_force))
    at_stop, state = _state(table, session_id, [*inputs, *passed], in_force, stop)
    links, checkpoints, unsigned = _proof(table, rows)
    files = {f"{kind}.jsonl": lines_of(rows[topic]) for topic, kind in KINDS.items()}
    files[POLICY] = _dump(at_stop.model_dump(mode="json", exclude_unset=True))
    files[STATE] = _dump(state)
    files[PROOF] = b"".join(orjson.dumps(link) + b"\n" for link in links)
    files[CHECKPOINTS_FILE] = b"".join(orjson.dumps(checkpoint) + b"\n" for checkpoint in checkpoints)
    manifest = {
        "haltline": version("haltline"),
        "session_id": session_id,
        "prefix": table.topics.prefix,
        "partitions": table.partitions,
        "source": table.name,
        "policy_from": "file" if policy is not None else "topic",
        "policy_name": name,
        "stopped_by": stop.decision_id if stop is not None else None,
        "passed": [record.timestamp for record in passed],
    }
    files[REPORT] = report_html(
        manifest, events, decisions, stop, _others(rows), links=len(links), signed=len(checkpoints)
    )
    return Collected(manifest, files, stop, unsigned)


def _rows(table: TableRange, session_id: str) -> dict[str, list[Json]]:
    """Return rows by topic's name, in log order: of the session, and every policy."""
    quoted, prefix = literal(session_id), table.topics.prefix
    found: dict[str, list[Json]] = {kind: [] for kind in KINDS}
    for row in table.rows(
        f'SELECT * FROM audit WHERE "sink" = {literal(table.sink)} '
        f'AND ("session_id" = {quoted} OR "key" = {quoted} OR "topic" = {literal(table.topics.policies)}) '
        f"AND {OF_KAFKA} "
        'ORDER BY "topic", "partition", "offset"'
    ):
        found.setdefault(row["topic"].removeprefix(prefix), []).append(row)
    return found


def _inputs(session_id: str, rows: Mapping[str, Sequence[Json]]) -> list[list[LogRecord]]:
    """Return the session's records that its worker read, by topic."""
    key = session_id.encode()
    return [
        [r for row in rows[kind] if (r := record_of(row, row["topic"], row["partition"])).key == key]
        for kind in ("actions", "commands", "feedback")
    ]


def _passed(table: TableRange, inputs: Sequence[LogRecord], session_id: str, ttl_ms: int) -> list[LogRecord]:
    """Return other sessions' records from idle times after which the worker may have dropped the session.

    It has if another record of its partition of actions arrived meanwhile; the last one of each gap is returned.
    """
    partition = partition_of(session_id, table.partitions)
    found: list[LogRecord] = []
    for before, after in pairwise(record.timestamp for record in inputs):
        if after - before <= ttl_ms:
            continue
        (row,) = table.rows(
            f'SELECT max("timestamp_ms") AS "last" FROM audit WHERE "sink" = {literal(table.sink)} '
            f'AND "topic" = {literal(table.topics.actions)} AND "partition" = {partition:d} '
            f'AND "timestamp_ms" > {before + ttl_ms:d} AND "timestamp_ms" < {after:d}'
        )
        if row["last"] is not None:
            found.append(passing(table.topics, partition, int(row["last"])))
    return found


def _state(
    table: TableRange,
    session_id: str,
    records: Sequence[LogRecord],
    in_force: Sequence[InForce],
    stop: Decision | None,
) -> tuple[Policy, Json | None]:
    """Return the policy that stopped the session, and its state at that time; without a stop, at its end."""
    replay = Replay(in_force, topics=table.topics, partitions=table.partitions)
    last: LogRecord | None = None
    for record in in_order([[record] for record in records], table.topics):
        if record.key is None:
            replay.pass_time(record)
            continue
        last = record
        decisions = replay.record(record).decisions
        if stop is not None and any(one["decision_id"] == stop.decision_id for one in decisions):
            break
    now_ms = 0 if last is None else last.timestamp
    held = [one for one in in_force if one.since_ms <= now_ms]
    return (held or list(in_force[:1]))[-1].core.policy, replay.state(session_id)


def _require_known(in_force: Sequence[InForce], decisions: Sequence[Decision]) -> None:
    known = {(one.core.policy.name, one.core.policy.version) for one in in_force}
    for decision in decisions:
        if decision.policy and (decision.policy, decision.policy_version) not in known:
            raise QueryFailed(
                f"decision {decision.decision_id}: expected its policy {decision.policy} version "
                f"{decision.policy_version} on the topic of policies, got {sorted(known)}; give it with --policy"
            )


def _proof(table: TableRange, rows: dict[str, list[Json]]) -> tuple[list[Json], list[Json], int]:
    """Return chains and statements of each partition with a record of the session, and how many have no statement.

    A chain goes from the session's first record to the first statement after its last one, or to that one.
    """
    links: list[Json] = []
    statements: list[Json] = []
    unsigned = 0
    offsets: dict[tuple[str, int], list[int]] = {}
    for row in (row for found in rows.values() for row in found):
        offsets.setdefault((row["topic"], row["partition"]), []).append(row["offset"])
    for (topic, partition), found in sorted(offsets.items()):
        first, last = min(found), max(found)
        sink = f'"sink" = {literal(table.sink)} AND "partition" = {partition:d}'
        signed = [
            orjson.loads(row["raw"])
            for row in table.rows(
                f'SELECT raw FROM audit WHERE {sink} AND "topic" = {literal(topic + CHECKPOINTS)} '
                f'AND "offset" >= {first:d} ORDER BY "offset"'
            )
        ]
        beyond = next((checkpoint["offset"] for checkpoint in signed if checkpoint["offset"] >= last), None)
        unsigned += beyond is None
        end = last if beyond is None else beyond
        statements += [checkpoint for checkpoint in signed if checkpoint["offset"] <= end]
        columns = ", ".join(f'"{name}"' for name in LINK)
        chained = f'{sink} AND "topic" = {literal(topic)} AND chain_hash IS NOT NULL'
        before = list(
            table.rows(
                f'SELECT {columns} FROM audit WHERE {chained} AND "offset" < {first:d} ORDER BY "offset" DESC LIMIT 1'
            )
        )
        links += before or _dropped(table, topic, partition, first)
        links += table.rows(
            f"SELECT {columns} FROM audit WHERE {chained} "
            f'AND "offset" >= {first:d} AND "offset" <= {end:d} ORDER BY "offset"'
        )
    return links, statements, unsigned


def _dropped(table: TableRange, topic: str, partition: int, first: int) -> list[Json]:
    """Return the stated end of the rows dropped before the session's first row; empty if that is the first."""
    place = {"sink": table.sink, "topic": topic, "partition": partition, "kind": "dropped", "prev_offset": -1}
    statements = table.rows(
        f'SELECT raw FROM audit WHERE kind = \'{STATEMENT}\' AND "sink" = {literal(table.sink)} ORDER BY "offset"'
    )
    ends = (end for row in statements for end in orjson.loads(row["raw"]).get("places", ()))
    found = [
        {**place, "offset": end["offset"], "record_digest": "", "chain_hash": end["chain_hash"]}
        for end in ends
        if (end["topic"], end["partition"]) == (topic, partition) and end["offset"] < first
    ]
    return found[-1:]


def _others(rows: dict[str, list[Json]]) -> list[tuple[str, int, str]]:
    """Return kind, time and summary of records of operators, the agent's side and haltline's control."""
    kinds = {"commands": "operator", "control": "control", "feedback": "feedback", "detections": "finding"}
    return [
        (kind, row["timestamp_ms"] or 0, str(row["summary"])) for topic, kind in kinds.items() for row in rows[topic]
    ]


def _event(row: Json) -> ActionEvent:
    record = record_of(row, row["topic"], row["partition"])
    return wire.decode_event(record.value, record.headers)


def _readable(decode: Callable[[Json], _T], rows: Iterable[Json]) -> Iterator[_T]:
    """Yield the decoded rows, without unreadable ones."""
    for row in rows:
        with suppress(wire.InvalidRecord):
            yield decode(row)


def _once(decisions: Sequence[Decision]) -> list[Decision]:
    """Return the first of each, in their order."""
    return [*{decision.decision_id: decision for decision in reversed(decisions)}.values()][::-1]


def _dump(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2)
