"""The audit table: search and verification."""

import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
from deltalake.exceptions import DeltaError
from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel

from haltline.console.context import ContextDep, Viewer
from haltline.console.http.routing import Limit, StrictRoute
from haltline.console.settings import ConsoleSettings
from haltline.schemas.keys import BadKey, load_public_key
from haltline.streams.audit.query import QueryFailed, literal, open_query
from haltline.streams.audit.verify import Problem, Verdict, Verifier

router = APIRouter(prefix="/api/v1/audit", tags=["audit"], route_class=StrictRoute)

_NONE: Final[dict[int | str, dict[str, Any]]] = {
    404: {"description": "No audit table is configured, or it is not there."}
}
_AT_A_TIME: Final = threading.Lock()
"""A verification reads the whole table, so only one runs at a time."""


class TableInfo(BaseModel):
    """The audit table of this console."""

    table: str | None
    signed: bool
    """Signatures are verified too."""


class AuditRecord(BaseModel):
    """One record of the audit."""

    topic: str
    partition: int
    offset: int
    time: str | None
    kind: str | None
    session_id: str | None
    agent_id: str | None
    action: str | None
    level: str | None
    detector: str | None
    code: str | None
    severity: str | None
    decision_id: str | None
    event_id: str | None
    by: str | None
    reason: str | None
    summary: str
    decode_error: str | None
    redacted: str | None
    chain_hash: str | None
    record: Any
    """As received: an object, or a text if it is not JSON; null if it was empty or erased."""


_COLUMNS: Final = (*(name for name in AuditRecord.model_fields if name not in ("time", "record")), "timestamp", "raw")


class AuditRecords(BaseModel):
    """Matching records, the newest first."""

    records: list[AuditRecord]
    more: bool
    """There are older matches."""


class VerifyResult(BaseModel):
    """The result of a verification."""

    ok: bool
    verdict: Verdict
    """`verified`: by signatures; `intact_unsigned`: no public key is configured; else `not_intact`."""
    partitions: int
    rows: int
    erased: int
    checkpoints: int
    unsigned: int
    problems: list[Problem]
    took_ms: int


@router.get("")
def where(here: ContextDep, _: Viewer) -> TableInfo:
    """The audit table of this console, if any."""
    return TableInfo(table=here.settings.audit_table, signed=here.settings.audit_public_key is not None)


@router.get("/records", responses=_NONE)
def records(
    here: ContextDep,
    _: Viewer,
    search: Annotated[str | None, Query(max_length=200, description="A part of the summary or the reason.")] = None,
    session_id: Annotated[str | None, Query(max_length=256)] = None,
    agent_id: Annotated[str | None, Query(max_length=256)] = None,
    topic: Annotated[str | None, Query(max_length=64, description="Without the prefix, such as commands.")] = None,
    by: Annotated[str | None, Query(max_length=256, description="Who did it.")] = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: Limit = 200,
) -> AuditRecords:
    """The newest records that match all parameters. Works while the sink writes."""
    full = None if topic is None else here.settings.topics.prefix + topic
    filters = {"session_id": session_id, "agent_id": agent_id, "topic": full, "by": by}
    held = [f'"{name}" = {literal(value)}' for name, value in filters.items() if value]
    held += [f'"timestamp" >= {literal(_aware(since))}'] if since is not None else []
    held += [f'"timestamp" < {literal(_aware(until))}'] if until is not None else []
    if search:
        text = literal(search.lower())
        held.append(f'(strpos(lower("summary"), {text}) > 0 OR strpos(lower(coalesce("reason", \'\')), {text}) > 0)')
    columns = ", ".join(f'"{name}"' for name in _COLUMNS)
    condition = f" WHERE {' AND '.join(held)}" if held else ""
    sql = (
        f"SELECT {columns} FROM audit{condition} "
        f'ORDER BY "timestamp_ms" DESC, "topic", "partition", "offset" DESC LIMIT {limit + 1:d}'
    )
    try:
        found = open_query(_table(here.settings), here.settings.audit_options).rows(sql)
    except QueryFailed as error:
        raise HTTPException(404, str(error)) from None
    return AuditRecords(records=[_record(row, here.settings) for row in found[:limit]], more=len(found) > limit)


@router.post("/verify", responses=_NONE)
def verify(here: ContextDep, _: Viewer) -> VerifyResult:
    """Verifies that no record was changed, removed, added, duplicated or reordered, or names the first that was.

    One at a time (409), as it reads the whole table as of its start.
    """
    table = _table(here.settings)
    if not _AT_A_TIME.acquire(blocking=False):
        raise HTTPException(409, "audit verification: expected one at a time, got another while one runs")
    try:
        begun_s = time.monotonic()
        path = here.settings.audit_public_key
        key = None if path is None else load_public_key(Path(path))
        verifier = Verifier(table, here.settings.audit_options, topics=here.settings.topics, public_key=key)
        for _place in verifier.run():
            pass
    except (BadKey, OSError, DeltaError) as error:
        raise HTTPException(404, f"audit table {table}: {error}") from None
    finally:
        _AT_A_TIME.release()
    found = verifier.found
    took_ms = round((time.monotonic() - begun_s) * 1000)
    more = {"ok": found.ok, "verdict": found.verdict, "problems": found.problems[:1000], "took_ms": took_ms}
    return VerifyResult(**vars(found) | more)


def _table(settings: ConsoleSettings) -> str:
    if settings.audit_table is None:
        raise HTTPException(404, "audit: expected a table (haltline console --audit-table), got none")
    return settings.audit_table


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _record(row: dict[str, Any], settings: ConsoleSettings) -> AuditRecord:
    raw: bytes | None = row.pop("raw")
    moment: datetime | None = row.pop("timestamp")
    try:
        record = None if raw is None else orjson.loads(raw)
    except orjson.JSONDecodeError:
        record = (raw or b"").decode(errors="backslashreplace")
    row["topic"] = str(row["topic"]).removeprefix(settings.topics.prefix)
    row["summary"] = row["summary"] or ""
    return AuditRecord(**row, time=None if moment is None else moment.isoformat(), record=record)
