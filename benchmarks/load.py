"""Generated events of agents: the same arguments and seed give the same bytes.

Every session starts, then their events are interleaved at random. A call is two events, proposed
and completed. Four of five calls only read, some fail, a few destroy something. A small share of
the sessions are runaways: at some point they delete one thing repeatedly, and end.
"""

import random
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from haltline.schemas.events import Kind

_READS: Final = ("read_file", "list_assets", "get_asset", "search_docs", "query_catalog")
_WRITES: Final = ("write_file", "create_asset", "update_tags")
_ERRORS: Final = (
    "FileNotFoundError: no such file: /srv/data/part-{0}.parquet",
    "HTTP 503 from catalog.example.org after {0} ms",
    "permission denied for asset {0}",
)
_DELETES_OF_A_RUNAWAY: Final = 4
_ERROR_SHARE: Final = 0.08
"""The share of completed calls that fail."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """The settings of a load.

    `destructive_share` is that of a healthy session's calls, `runaway_share` that of sessions.
    `start_ms` is the event time of the first event, `seconds_between` the average of it between two events of one
    session. With `await_verdicts` the agent's side waits for a verdict on every proposal. `first` is the number of the
    first session in the names.
    """

    events: int
    sessions: int
    start_ms: int
    seed: int = 1
    seconds_between: float = 10.0
    destructive_share: float = 0.01
    runaway_share: float = 0.005
    await_verdicts: bool = False
    prefix: str = "sess"
    first: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.sessions <= self.events:
            raise ValueError(f"sessions: expected 1 to {self.events} (one event each), got {self.sessions}")


class Sent(NamedTuple):
    """One event, ready to be produced."""

    session_id: str
    event_id: str
    awaited: bool
    value: bytes


class _Session:
    """The state of one agent."""

    __slots__ = ("agent_id", "call", "calls_left", "deletes", "doomed_asset", "seq", "session_id")

    def __init__(self, session_id: str, agent_id: str, calls_left: int | None, doomed_asset: str) -> None:
        self.session_id = session_id
        self.agent_id = agent_id
        self.seq = 0
        self.call: dict[str, Any] | None = None
        """The call that is proposed and not completed."""
        self.calls_left = calls_left
        """Calls until it becomes a runaway; None: never."""
        self.deletes = 0
        self.doomed_asset = doomed_asset


def generate(load: Load) -> Iterator[Sent]:
    """Yield the events in order; event times never decrease."""
    rng = random.Random(load.seed)
    active = [_session(load, rng, load.first + number) for number in range(load.sessions)]
    step_ms = load.seconds_between * 1000 / load.sessions
    for number in range(load.events):
        time_ms = load.start_ms + int(number * step_ms)
        starts = number < load.sessions
        at = number if starts else rng.randrange(len(active))
        session = active[at]
        fields = _started() if starts else _next(load, rng, session)
        event_id = f"{rng.getrandbits(96):024x}"
        awaited = load.await_verdicts and fields["kind"] is Kind.PROPOSED
        head = {
            "v": 1,
            "event_id": event_id,
            "session_id": session.session_id,
            "agent_id": session.agent_id,
            "seq": session.seq,
            "time": time_ms,
        }
        if awaited:
            head["await_verdict"] = True
        session.seq += 1
        yield Sent(session.session_id, event_id, awaited, orjson.dumps(head | fields))
        if fields["kind"] is Kind.SESSION_ENDED and len(active) > 1:
            active[at] = active[-1]
            active.pop()


def paced(events: Iterable[Sent], per_s: float, ended: threading.Event) -> Iterator[Sent]:
    """Yield the events at a steady rate, until the event `ended` is set."""
    began = time.perf_counter()
    for number, sent in enumerate(events):
        if ended.wait(max(0.0, began + number / per_s - time.perf_counter())):
            return
        yield sent


def _session(load: Load, rng: random.Random, number: int) -> _Session:
    runaway = rng.random() < load.runaway_share
    return _Session(
        session_id=f"{load.prefix}-{load.seed}-{number:07d}",
        agent_id=f"agent-{number % 40:02d}",
        calls_left=rng.randrange(1, 4) if runaway else None,
        doomed_asset=f"fact_{rng.getrandbits(32):08x}",
    )


def _started() -> dict[str, Any]:
    task = {"goal": "tidy up what nobody has used since spring", "expected_paths": ["/srv/data/*"]}
    return {"kind": Kind.SESSION_STARTED, "task": task}


def _next(load: Load, rng: random.Random, session: _Session) -> dict[str, Any]:
    if session.call is not None:
        call, session.call = session.call, None
        return _completed(rng, session, call)
    if session.deletes >= _DELETES_OF_A_RUNAWAY:
        session.deletes, session.calls_left = 0, None
        return {"kind": Kind.SESSION_ENDED}
    session.call = _call(load, rng, session)
    return {"kind": Kind.PROPOSED} | session.call


def _call(load: Load, rng: random.Random, session: _Session) -> dict[str, Any]:
    call_id = f"call_{rng.getrandbits(64):016x}"
    if session.calls_left is not None:
        session.calls_left -= 1
        if session.calls_left < 0:
            session.deletes += 1
            return _delete(call_id, session.doomed_asset)
    drawn = rng.random()
    if drawn < load.destructive_share:
        return _delete(call_id, f"stg_{rng.getrandbits(32):08x}")
    part = rng.randrange(10_000)
    if drawn < 0.2:
        path = f"/srv/data/out/part-{part}.json"
        return {
            "call_id": call_id,
            "action": rng.choice(_WRITES),
            "args": {"path": path, "content": f"rows {part} to {part + 99}", "mode": "w"},
            "targets": [f"path={path}"],
            "effect": "write",
        }
    path = f"/srv/data/in/part-{part}.parquet"
    return {
        "call_id": call_id,
        "action": rng.choice(_READS),
        "args": {"path": path, "columns": ["id", "amount", "day"], "limit": 100},
        "targets": [f"path={path}"],
        "effect": "read",
    }


def _delete(call_id: str, asset: str) -> dict[str, Any]:
    return {
        "call_id": call_id,
        "action": "delete_asset",
        "args": {"asset_id": asset, "force": True},
        "targets": [f"asset_id={asset}"],
        "effect": "destructive",
    }


def _completed(rng: random.Random, session: _Session, call: dict[str, Any]) -> dict[str, Any]:
    stuck = session.deletes > 0 and call["action"] == "delete_asset"
    failed = stuck or rng.random() < _ERROR_SHARE
    result: dict[str, Any] = {
        "kind": Kind.COMPLETED,
        "call_id": call["call_id"],
        "action": call["action"],
        "outcome": "error" if failed else "ok",
        "duration_ms": rng.randrange(20, 4000) / 2,
        "output_bytes": rng.randrange(60, 9000),
        "output_digest": f"{rng.getrandbits(64):016x}",
        "usage": {
            "input_tokens": rng.randrange(500, 6000),
            "output_tokens": rng.randrange(20, 400),
            "cost_usd": rng.randrange(100, 9000) / 1_000_000,
        },
    }
    if stuck:
        result["error"] = f"asset still exists: {session.doomed_asset}"
    elif failed:
        result["error"] = rng.choice(_ERRORS).format(rng.randrange(10_000))
    return result
