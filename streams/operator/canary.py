"""A session that must be killed, to prove that the whole loop works, from an agent's call to the acknowledged stop.

The canary is a real guard with its own session. It proposes to destroy one thing repeatedly, which the loop guard must
stop; nothing is executed. It passes when a call is refused with a kill, the kill is in force on the `control` topic for
a session without other records, and the worker has received its acknowledgement. Then it resets its session, without
probation, so that nothing remains. Each canary has its own agent and target, because an agent that is stopped
repeatedly stays stopped, as intended.
"""

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from haltline.interventions.agent import Guard, Level, Refused
from haltline.interventions.agent.refused import NO_VERDICT
from haltline.schemas import expressions as re
from haltline.schemas.control import CommandKind, ControlRecord
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.events import Task
from haltline.schemas.topics import Topics
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.operator.client import Operator

BY: Final = "haltline canary"
SESSIONS: Final = "haltline-canary-"
"""The prefix of a canary session's id."""
ATTEMPTS: Final = 10
"""The number of calls after which the loop guard must have killed."""

_POLL_S = 0.1
_GOAL: Final = "prove that a runaway is stopped"
_AGAIN: Final = re.compile(re.escape(_GOAL) + r", every ([0-9.]+) s")


def goal_of(every_s: float | None) -> str:
    """Return the goal of a canary's session; `every_s` is the time until the next canary, in seconds."""
    return _GOAL if every_s is None else f"{_GOAL}, every {every_s:.3f} s"


def every_s_of(goal: str) -> float | None:
    """Return the `every_s` of such a goal; None if it announces no next canary."""
    found = _AGAIN.fullmatch(goal)
    return None if found is None else float(found[1])


@dataclass(frozen=True, kw_only=True)
class Flight:
    """The result of one canary."""

    session_id: str
    killed: bool
    """Whether a call was refused with a kill."""
    acknowledged: bool
    """Whether the kill is in force, and the worker knows that the agent's side has stopped."""
    attempts: int
    seconds: float
    """Seconds from the first call to the acknowledged kill."""
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
    """Run one canary, and clean up after it.

    `every_s` is the interval of repeated canaries, so that a monitor notices a missing one. `verify_key` is as in
    GuardSettings.

    Raises Unreachable when no broker answers, ValueError for an invalid key.
    """
    session = f"{SESSIONS}{uuid.uuid4().hex[:12]}"
    operator = Operator(bootstrap, topics=topics, group="haltline-canary", answer_within_s=within_s, client=client)
    operator.in_force()  # fails at once when no broker answers
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
        approval_wait_s=0.0,  # nobody approves a canary's request; the next attempt shows whether a kill follows
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
    """Return the number of calls, the code of the last refusal, and whether it is a kill."""
    code = ""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with guard.action("delete_asset", args={"asset_id": target}, targets=[f"asset_id={target}"]):
                pass  # there is nothing to delete
        except Refused as refused:
            code = refused.code
            kill = refused.decision is not None and refused.decision.level is Level.KILL
            if kill or guard.killed or code == NO_VERDICT:
                return attempt, code, kill or guard.killed
    return ATTEMPTS, code, False


def _acknowledged(operator: Operator, session: str, deadline_s: float) -> ControlRecord | None:
    while True:
        for record in operator.in_force():
            if record.scope is ScopeKind.SESSION and record.id == session and record.stopped_at is not None:
                return record
        if time.monotonic() > deadline_s:
            return None
        time.sleep(_POLL_S)
