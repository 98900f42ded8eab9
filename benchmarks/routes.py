"""`python -m benchmarks.routes`: the cost of a request to each route, on a read model of many interventions.

The console's application is called in this process, without a server or a network, so that other load hardly affects
the processor time. The rows are generated: decisions of sessions, one in ten a stop with its report, a finding and an
intervention for each. An embedded broker receives posted records.
"""

import argparse
import asyncio
import itertools
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import uvloop
from rich.console import Console
from sqlalchemy import insert

from benchmarks import command
from benchmarks.reporting.table import Table, ms
from haltline.console.access.keys import Keys, Role, Who
from haltline.console.app import create_app
from haltline.console.read_model import tables
from haltline.console.read_model.incidents import put_incidents
from haltline.console.read_model.store import open_store, put
from haltline.console.read_model.tallies import put_interventions
from haltline.console.read_model.text_search import words_of
from haltline.console.settings import ConsoleSettings
from haltline.schemas.decisions import Level, ScopeKind
from haltline.schemas.incidents import IncidentChange, IncidentRecord, IncidentState
from haltline.schemas.topics import Topics
from haltline.streams.local.embedded_broker import EmbeddedBroker

KEY = "hl_measured"
_CHUNK = 10_000
_STEP_MS = 2_000
_PER_SESSION = 10
_WIDTH = 120
_TYPES = ("hard_block", "loop_detected", "budget_exceeded", "approval_required")
_OUTCOMES = ("blocked", "warned", "modified", "escalated")
_RISKS = ("low", "medium", "high", "critical")
_RULES = ("destructive_repeat", "cycle", "budget", "repeat_failure", "scope_drift", "fan_out")
_ACTIONS = ("delete_asset", "write_file", "read_page", "send_mail", "drop_table", "update_tags")

Application = Callable[..., Awaitable[None]]


@dataclass(frozen=True)
class Asked:
    """One kind of request."""

    name: str
    path: str
    query: str = ""
    body: Callable[[], dict[str, Any]] | None = None


@dataclass(frozen=True)
class Cost:
    """The cost of a request, in milliseconds."""

    name: str
    status: int
    cpu_ms: float
    """The mean processor time of all threads."""
    median_ms: float
    longest_ms: float


def _record() -> dict[str, Any]:
    return {
        "type": "hard_block", "outcome": "blocked", "action_name": "delete_asset", "risk_level": "high",
        "estimated_cost_usd": 1.0, "reason": "measured", "run_id": uuid.uuid4().hex,
    }  # fmt: skip


def requests(rows: int, now_ms: int) -> list[Asked]:
    """The routes that list, count or are called often, with each filter."""
    listed, day = "/api/v1/interventions", _iso(now_ms - 86_400_000)
    middle = f"s-{rows // _PER_SESSION // 2:07d}"
    lists = {
        "": "limit=50", "type": "type=hard_block", "outcome": "outcome=blocked", "risk": "risk_level=critical",
        "action": "action_name=drop_table", "agent": "agent_id=agent-07", "run": f"run_id={middle}",
        "policy": "policy_id=cycle", "last day": f"start_date={day}", "prevented": "min_prevented_usd=4.9",
        "trips": "trips_only=true", "high risk": "high_risk=true", "search, rare": "search=asset-0123456",
        "search, none": "search=nothing+of+the+kind", "search, common": "search=delete", "page 1000": "skip=50000",
        "agent and type": "agent_id=agent-07&type=hard_block", "blocked, last day": f"outcome=blocked&start_date={day}",
    }  # fmt: skip
    by_agent, by_session, since_day = "agent_id=agent-07", f"session_id={middle}", f"start_date={day}"
    hours = {f"{count} h": f"hours={count}" for count in (1, 24, 168)}
    others = {
        "/interventions": {name or "all": query for name, query in lists.items()},
        f"/interventions/int_{rows // 2:08d}": {"": ""},
        "/interventions/stats": {"": "", "last day": since_day, "agent": by_agent},
        "/search": {
            "rare": "q=asset-0123450", "common": "q=asset", "two characters": "q=as", "none": "q=nothing+of+the+kind",
        },
        "/interventions/breakdown": {"": "", "last day": since_day, "type": "type=hard_block"},
        "/sessions": {
            "": "limit=50", "agent": by_agent, "level": "level=KILL", "state": "state=killed",
            "search": "search=0012345",
        },
        f"/sessions/{middle}": {"": ""},
        "/detections": {
            "": "", "detector": "detector=cycle", "severity": "severity=critical", "session": by_session,
            "agent": by_agent, "last day": since_day,
        },
        "/incidents": {"": "", "session": by_session, "agent": by_agent, "last day": since_day},
        f"/incidents/inc_{rows // 2 // 10 * 10:08d}": {"": ""},
        "/approvals": {"": ""}, "/approvals/pending": {"": ""}, "/control": {"": ""}, "/fleet": {"": ""},
        "/fleet/trips": hours, "/fleet/top": hours, "/fleet/spending": {"": ""}, "/fleet/live": {"": ""},
        "/kill/stops": {"": "decision_id=none"}, "/precision": {"": ""},
    }  # fmt: skip
    return [
        Asked("POST /interventions", listed, body=_record),
        *(
            Asked(f"GET {path} ({name})" if name else f"GET {path}", f"/api/v1{path}", query)
            for path, queries in others.items()
            for name, query in queries.items()
        ),
    ]


def _iso(time_ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time_ms / 1000))


def fill(url: str, rows: int, now_ms: int) -> None:
    """Write generated rows into an empty read model; the last one has the current time."""
    engine = open_store(url)
    numbers = iter(range(rows))
    while chunk := list(itertools.islice(numbers, _CHUNK)):
        made = [_rows(number, now_ms - (rows - number) * _STEP_MS) for number in chunk]
        records, interventions, sessions = (list(itertools.chain.from_iterable(of)) for of in zip(*made, strict=True))
        with engine.begin() as connection:
            connection.execute(insert(tables.records), records)
            put_interventions(connection, interventions)
            put(connection, tables.sessions, sessions)
            put(connection, tables.names, _names(sessions))
            put_incidents(connection, [_incident(record) for record in records if record["incident_id"] is not None])
    engine.dispose()


def _names(sessions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The names of the sessions' agents and targets."""
    named = {("agent", one["agent_id"]) for one in sessions} | {
        ("target", target) for one in sessions for target in one["words"].split("\n") if target.startswith("asset-")
    }
    at = {"last_ms": sessions[-1]["last_ms"]} if sessions else {}
    return [{"kind": kind, "name": name, **at, "words": words_of(name)} for kind, name in sorted(named)]


def _incident(record: dict[str, Any]) -> IncidentRecord:
    """The incident of a stop; every tenth is open."""
    is_open = record["offset"] % 10 == 0
    return IncidentRecord(
        incident_id=record["incident_id"],
        revision=2,
        change=IncidentChange.ESCALATED if is_open else IncidentChange.RESOLVED,
        state=IncidentState.OPEN if is_open else IncidentState.RESOLVED,
        scope=ScopeKind.SESSION,
        scope_id=record["session_id"],
        cause=record["detector"],
        session_id=record["session_id"],
        agent_id=record["agent_id"],
        level=Level.KILL,
        severity=record["severity"],
        count=2,
        first_at=record["time_ms"],
        last_at=record["time_ms"],
        changed_at=record["time_ms"],
        summary=record["summary"],
        decision_id=record["decision_id"],
        resolution=None if is_open else "session_killed",
    )


def _rows(number: int, time_ms: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """The records of one decision, its intervention, and for every tenth decision its session."""
    rng = random.Random(number)
    session = f"s-{number // _PER_SESSION:07d}"
    who = {"session_id": session, "agent_id": f"agent-{number // _PER_SESSION % 40:02d}"}
    rule, action = rng.choice(_RULES), rng.choice(_ACTIONS)
    kind, outcome, risk = rng.choice(_TYPES), rng.choice(_OUTCOMES), rng.choice(_RISKS)
    stops = number % 10 == 0
    decision: dict[str, Any] = {
        "decision_id": f"d-{number:08d}", **who, "event_id": f"e-{number:08d}",
        "time": time_ms, "level": "KILL" if stops else "NUDGE",
        "code": rule, "detector": rule, "reason": f"{action} on asset-{number:07d} was tried again", "severity": risk,
        "evidence": [{"event_id": f"e-{number:08d}-{n}"} for n in range(4)],
    }  # fmt: skip
    if stops:
        story = [f"{action} asset-{number:07d} failed: asset still exists"] * 6
        decision["incident"] = {
            "incident_id": f"inc_{number:08d}", "summary": " ".join(story), "severity": risk,
        }  # fmt: skip
    found = {**decision, "finding": {"detector": rule, "severity": risk, "reason": decision["reason"]}}
    place = {"partition": number % 4, "offset": number // 4, "time_ms": time_ms, "detector": rule, "severity": risk}
    common = {**place, **who, "event_id": f"e-{number:08d}", "decision_id": decision["decision_id"]}
    incident_id = f"inc_{number:08d}" if stops else None
    records = [
        {
            **common,
            "topic": topic,
            "kind": kind_of,
            "incident_id": report,
            "summary": result["reason"],
            "body": _text(result),
        }
        for topic, kind_of, report, result in (
            ("interventions", "decision", incident_id, decision),
            ("detections", "detection", None, found),
        )
    ]
    prevented = round(rng.random() * 5, 2)
    record = {
        "id": f"int_{number:08d}", "type": kind, "outcome": outcome, "action_name": action,
        "description": decision["reason"], "agent_id": who["agent_id"], "run_id": session, "policy_id": rule,
        "policy_name": rule, "risk_level": risk, "estimated_cost_usd": prevented, "actual_cost_usd": 0.0,
        "cost_prevented_usd": prevented, "attempt": 1, "blast_radius": "one asset", "reason": decision["reason"],
        "agent_intent": "tidy up what nobody has used since spring", "original_inputs": {"asset_id": f"asset-{number}"},
        "modified_inputs": None, "context": {"evidence": decision["evidence"]}, "timestamp": time_ms,
        "created_at": time_ms,
    }  # fmt: skip
    columns = ("id", "type", "outcome", "action_name", "policy_id", "policy_name", "risk_level", "cost_prevented_usd")
    intervention = {name: record[name] for name in columns} | {
        **who, "event_id": common["event_id"], "request_id": None, "time_ms": time_ms, "body": _text(record),
        "words": words_of(
            record["id"], action, record["reason"], session, who["agent_id"], rule, record["blast_radius"]
        ),
        "level": decision["level"],
    }  # fmt: skip
    if number % _PER_SESSION:
        return records, [intervention], []
    row = {
        **who, "goal": "tidy up what nobody has used since spring", "first_ms": time_ms, "last_ms": time_ms + 9_000,
        "events": 40, "interventions": _PER_SESSION, "hardest": rng.choice((0, 1, 3, 6)), "cost_usd": 0.2,
        "ended": True,
        "words": words_of(session, "tidy up what nobody has used since spring", who["agent_id"], f"asset-{number:07d}"),
    }  # fmt: skip
    return records, [intervention], [row]


def _text(fields: dict[str, Any]) -> str:
    return orjson.dumps(fields).decode()


async def measured(app: Application, to_measure: Sequence[Asked], repeats: int, within_s: float) -> list[Cost]:
    """Measure each request: `repeats` times, or fewer if they take longer than `within_s`."""
    costs = []
    for one in to_measure:
        status, _ = await _ask(app, one)  # a warm-up: compiles statements, for example
        took: list[float] = []
        cpu_s, began = time.process_time(), time.monotonic()
        while len(took) < repeats and (not took or time.monotonic() - began < within_s):
            at = time.perf_counter()
            await _ask(app, one)
            took.append((time.perf_counter() - at) * 1000)
        cpu_s = time.process_time() - cpu_s
        costs.append(Cost(one.name, status, cpu_s / len(took) * 1000, sorted(took)[len(took) // 2], max(took)))
    return costs


async def _ask(app: Application, one: Asked) -> tuple[int, bytes]:
    body = b"" if one.body is None else orjson.dumps(one.body())
    headers = [(b"authorization", f"Bearer {KEY}".encode()), (b"content-type", b"application/json"), (b"host", b"x")]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": "",
        "method": "GET" if one.body is None else "POST", "path": one.path, "raw_path": one.path.encode(),
        "query_string": one.query.encode(), "headers": headers, "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80), "state": {},
    }  # fmt: skip
    result: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        result.append(message)

    await app(scope, receive, send)
    return result[0]["status"], b"".join(message.get("body", b"") for message in result[1:])


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 if every route answered without an error, else 1."""
    args = _options().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="haltline-routes-") as scratch, EmbeddedBroker() as broker:
        broker.ensure_topics(Topics())
        database = args.database or Path(scratch, "model.db")
        now_ms = time.time_ns() // 1_000_000
        if not database.exists():
            fill(f"sqlite:///{database}", args.rows, now_ms)
        settings = ConsoleSettings(
            bootstrap=broker.bootstrap,
            keys=Keys.of([(KEY, Who("measured", Role.ADMIN))]),
            database=f"sqlite:///{database}",
            requests_per_s=1e9,
            burst=10**9,
        )
        every = [one for one in requests(args.rows, now_ms) if not args.only or args.only in one.name]
        costs = uvloop.run(served(settings, every, args.repeats, args.within_s))
    _show(costs, args.rows)
    return 0 if all(cost.status < 400 for cost in costs) else 1


async def served(settings: ConsoleSettings, to_measure: Sequence[Asked], repeats: int, within_s: float) -> list[Cost]:
    """Measure each request on a console with these settings."""
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        while not app.state.context.feeder.caught_up.is_set():
            await asyncio.sleep(0.05)
        return await measured(app, to_measure, repeats, within_s)


def _show(costs: Sequence[Cost], rows: int) -> None:
    columns = ["", "status", "processor", "median", "longest"]
    shown = [[c.name, str(c.status), *map(ms, (c.cpu_ms, c.median_ms, c.longest_ms))] for c in costs]
    Table(f"{rows} interventions in the read model", columns, shown).show(Console(width=_WIDTH))


def _options() -> argparse.ArgumentParser:
    parser = command.options("benchmarks.routes", __doc__, "--rows 500000")
    parser.add_argument("--rows", type=int, default=500_000, help="interventions (%(default)s)")
    parser.add_argument("--repeats", type=int, default=30, help="requests to each route (%(default)s)")
    parser.add_argument("--within-s", type=float, default=3.0, help="maximum time for one request type (%(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only routes whose name contains this")
    parser.add_argument(
        "--database", type=Path, metavar="FILE", help="the read model: used if it exists, else kept there"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
