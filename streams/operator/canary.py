"""A session that must be killed: proof that the whole loop works, from an agent's call to the acknowledged stop.

The canary is a real guard with a session of its own. It proposes to destroy one thing again and again, which the loop
guard must stop; nothing is ever executed. It passes when a call is refused with a kill, when the kill stands on the
`control` topic for a session without other records, and when the worker has taken in that it has stopped. Then it
releases its session, without probation, so that nothing of it stays. Each has an agent and a target of its own:
one agent that is stopped again and again would stay stopped, as it should.
"""

import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from haltline.interventions.agent import Guard, Level, Refused
from haltline.interventions.agent.refused import NO_VERDICT
from haltline.schemas.control import CommandKind, ControlRecord
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.events import Task
from haltline.schemas.topics import Topics
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.operator.client import Operator

BY: Final = "haltline canary"
SESSIONS: Final = "haltline-canary-"
"""How the id of each canary's session begins."""
ATTEMPTS: Final = 10
"""Calls after which a loop guard that has not killed does not work."""

_POLL_S = 0.1
_GOAL: Final = "prove that a runaway is stopped"
_AGAIN: Final = re.compile(re.escape(_GOAL) + r", every ([0-9.]+) s")


def goal_of(every_s: float | None) -> str:
    """What a canary's session says that it does; `every_s`: how long until the next."""
    return _GOAL if every_s is None else f"{_GOAL}, every {every_s:.3f} s"


def every_s_of(goal: str) -> float | None:
    """The other way round. None: nothing says that there is a next one."""
    found = _AGAIN.fullmatch(goal)
    return None if found is None else float(found[1])


@dataclass(frozen=True, kw_only=True)
class Flight:
    """What became of one canary."""

    session_id: str
    killed: bool
    """A call was refused with a kill."""
    acknowledged: bool
    """The kill stands, and the worker knows that the agent's side has stopped."""
    attempts: int
    seconds: float
    """From the first call to the kill that stands and is acknowledged."""
    time_to_stop_ms: int | None
    problem: str = ""
    """What was expected and what was received."""

    @property
    def well(self) -> bool:
        """Whether the loop works."""
        return self.killed and self.acknowledged


def fly(
    bootstrap: str,
    topics: Topics,
    *,
    within_s: float,
    client: Mapping[str, ClientSetting] | None = None,
    verify_key: str | None = None,
    every_s: float | None = None,
) -> Flight:
    """Sends one canary, and clears up after it.

    `every_s` is the time from one to the next, where it is run again and again: who watches knows then when one is
    missing. `verify_key` is as in GuardSettings.

    Raises Unreachable when no broker answers, ValueError for a key that is none.
    """
    session = f"{SESSIONS}{uuid.uuid4().hex[:12]}"
    operator = Operator(bootstrap, topics=topics, group="haltline-canary", answer_within_s=within_s, client=client)
    operator.standing()  # says at once when nobody is there
    began = time.monotonic()
    guard = Guard(
        session_id=session,
        agent_id=session,
        task=Task(goal=goal_of(every_s)),
        bootstrap=bootstrap,
        topic_prefix=topics.prefix,
        mode="blocking",
        budget_s=within_s,
        start_budget_s=within_s,
        close_budget_s=1.0,
        approval_wait_s=0.0,  # nobody approves what a canary asks for; the next attempt shows whether a kill follows
        kafka=dict(client or {}),
        verify_key=verify_key,
    )
    with guard:
        attempts, code, killed = _provoke(guard, session)
        record = _acknowledged(operator, session, began + within_s) if killed else None
        took_s = time.monotonic() - began
    if record is not None:
        operator.command(
            CommandKind.RESET, ScopeKind.SESSION, session, by=BY, reason="the canary is done", probation_actions=0
        )
    problem = ""
    if not killed:
        problem = f"expected a kill within {ATTEMPTS} identical deletes, got {code or 'none'} after {attempts}"
    elif record is None:
        problem = f"expected the kill to stand and be acknowledged within {within_s:g} s, got none"
    return Flight(
        session_id=session,
        killed=killed,
        acknowledged=record is not None,
        attempts=attempts,
        seconds=took_s,
        time_to_stop_ms=None if record is None else record.time_to_stop_ms,
        problem=problem,
    )


def _provoke(guard: Guard, target: str) -> tuple[int, str, bool]:
    """How many calls it took, what the last one was refused with, and whether that is a kill."""
    code = ""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with guard.action("delete_asset", args={"asset_id": target}, targets=[f"asset_id={target}"]):
                pass  # nothing is there to delete
        except Refused as refused:
            code = refused.code
            kill = refused.decision is not None and refused.decision.level is Level.KILL
            if kill or guard.killed or code == NO_VERDICT:
                return attempt, code, kill or guard.killed
    return ATTEMPTS, code, False


def _acknowledged(operator: Operator, session: str, deadline_s: float) -> ControlRecord | None:
    while True:
        for record in operator.standing():
            if record.scope is ScopeKind.SESSION and record.id == session and record.stopped_at is not None:
                return record
        if time.monotonic() > deadline_s:
            return None
        time.sleep(_POLL_S)
