"""The two acts of the demonstration, and the facts that each must produce."""

from dataclasses import dataclass
from typing import Any

from haltline.schemas.control import ControlRecord, control_key
from haltline.schemas.decisions import Level, ScopeKind
from haltline.streams.audit.query import QueryFailed, session_story
from haltline.streams.demo.agent_kit import EXIT_STOPPED, Outcome
from haltline.streams.demo.catalogue import COPY, GONE, STAGING, STUCK
from haltline.streams.demo.stage import OPERATOR, Agent, Stage

BRITTLE_SESSION = "sales-clean-up-1"
BULK_SESSION = "staging-clean-up-1"
KILL_CODE = "session_killed_loop_guard"

_AUDIT_WITHIN_S = 60.0
_CONTROL_WITHIN_S = 30.0


@dataclass(frozen=True)
class Fact:
    """One claim, whether it is true, and the evidence."""

    claim: str
    holds: bool
    seen: str


def act_one(stage: Stage, pause_s: float) -> list[Fact]:
    """Show that a runaway agent is stopped, stays stopped, and is released by an operator."""
    stage.title(
        "Act 1. A brittle task",
        f"An agent shall remove the stale asset {STUCK} and retry until it is gone. "
        f"The catalogue answers 'asset still exists' each time. Nothing in the agent would ever stop this.",
    )
    first = stage.run_agent("brittle-1", "brittle_agent", BRITTLE_SESSION, "--pause-s", f"{pause_s:g}")
    killed = _until_stopped(stage)
    stage.say("system", "the agent's process is started again, as a supervisor would")
    second = stage.run_agent("brittle-2", "brittle_agent", BRITTLE_SESSION, "--pause-s", f"{pause_s:g}")
    requests = stage.catalogue.requests

    # Only a person can release it, with a reason.
    reset = ("reset", BRITTLE_SESSION, "--by", OPERATOR, "--reason")
    unreasoned = stage.command("reset-1", *reset, "")
    still_killed = control_key(ScopeKind.SESSION, BRITTLE_SESSION) in stage.control
    released = stage.command("reset-2", *reset, "task corrected: report it instead of deleting it again")
    cured = stage.run_agent("brittle-3", "brittle_agent", BRITTLE_SESSION, "--cured")

    story = _story(stage, BRITTLE_SESSION, "session_killed: ", "session_reset by")
    return [
        *_stopped(stage, first, second),
        Fact(
            f"the catalogue saw two deletes of {STUCK}, and nothing after the refusal",
            [(request.method, request.asset_id) for request in requests] == [("DELETE", STUCK)] * 2,
            f"{len(requests)} requests",
        ),
        _acknowledged(killed),
        _audited("session_killed: loop_detected, 3 deletes on asset_id=fact_sales in ", story),
        Fact("a reset without a reason is refused", unreasoned == 2 and still_killed, f"exit code {unreasoned}"),
        Fact(
            "after an operator's reset the session works again, with a corrected task",
            released == 0 and cured.child.exit_code == 0 and not cured.refused and _was_deleted(stage, COPY),
            f"{len(cured.answered)} calls made, {len(cured.refused)} refused",
        ),
        _audited(f"session_reset by {OPERATOR}: task corrected", story),
    ]


def act_two(stage: Stage) -> list[Fact]:
    """Show that a healthy agent's declared bulk clean-up is not stopped."""
    stage.title(
        "Act 2. A declared clean-up",
        f"Another agent removes {len(STAGING)} staging assets, as fast as it can. That is far more than the "
        "limit of 3 deletes in 60 s, so an operator declares it first.",
    )
    declared = stage.command(
        "batch",
        *("batch", BULK_SESSION, "--max-deletes", "100", "--actions", "delete_*", "--targets", "asset_id=stg_*"),
        *("--for", "1h", "--by", OPERATOR, "--reason", "quarterly clean-up of staging"),
    )
    agent = stage.run_agent("cleanup", "cleanup_agent", BULK_SESSION)
    deleted = [asset for asset in STAGING if _was_deleted(stage, asset)]
    hardest = max((d.level for d in stage.decisions if d.session_id == BULK_SESSION), default=Level.ALLOW)
    story = _story(stage, BULK_SESSION, "session_batch by")
    return [
        Fact(
            f"a declared clean-up of {len(STAGING)} assets is not stopped",
            declared == 0 and agent.child.exit_code == 0 and len(deleted) == len(STAGING),
            f"{len(deleted)} deleted, {len(agent.refused)} refused, hardest decision {hardest}",
        ),
        _audited(f"session_batch by {OPERATOR}: quarterly", story),
    ]


def _stopped(stage: Stage, first: Agent, second: Agent) -> list[Fact]:
    """Return whether the first process was stopped at its third delete, and the second at its first call."""
    codes = {step.code for step in (*first.refused, *second.refused)}
    advised = any(step.outcome is Outcome.ADVISED and step.code == "loop_suspected" for step in first.steps)
    kills = [d for d in stage.decisions if d.session_id == BRITTLE_SESSION and d.code == KILL_CODE]
    third = len(first.answered) == 2 and len(first.refused) > 0 and first.child.exit_code == EXIT_STOPPED
    return [
        Fact("at the second delete the agent is warned (loop_suspected)", advised, "heard" if advised else "not heard"),
        Fact(
            "the third delete is refused",
            third and bool(kills) and kills[0].detector in {"destructive_repeat", "destructive_volume"},
            f"{len(first.answered)} calls made, then {kills[0].reason if kills else 'no kill'}",
        ),
        Fact(
            f"every further call is refused with {KILL_CODE}",
            len(first.refused) == 4 and codes == {KILL_CODE},
            f"{len(first.refused)} refused: {', '.join(sorted(codes))}",
        ),
        Fact(
            "the restarted process is refused at once",
            not second.answered and len(second.refused) == 4 and second.child.exit_code == EXIT_STOPPED,
            f"{len(second.answered)} calls made, {len(second.refused)} refused",
        ),
    ]


def _until_stopped(stage: Stage) -> ControlRecord | None:
    """Return the session's control record, once the agent's side has acknowledged the stop; None without a kill."""
    key = control_key(ScopeKind.SESSION, BRITTLE_SESSION)
    stage.wait(
        lambda: (record := stage.control.get(key)) is not None and record.stopped_at is not None,
        "the agent's side to acknowledge the kill",
        within_s=_CONTROL_WITHIN_S,
    )
    return stage.control.get(key)


def _acknowledged(killed: ControlRecord | None) -> Fact:
    time_to_stop_ms = killed.time_to_stop_ms if killed is not None else None
    seen = "not acknowledged" if time_to_stop_ms is None else f"time to stop {time_to_stop_ms} ms"
    return Fact("the kill was acknowledged, not only sent", time_to_stop_ms is not None, seen)


def _was_deleted(stage: Stage, asset_id: str) -> bool:
    return any(r.method == "DELETE" and r.asset_id == asset_id and r.answer == GONE for r in stage.catalogue.requests)


def _story(stage: Stage, session_id: str, *beginnings: str) -> list[dict[str, Any]]:
    """Return the session's rows in the audit table, once summaries with all these prefixes exist."""
    story: list[dict[str, Any]] = []

    def all_there() -> bool:
        nonlocal story
        try:
            story = session_story(stage.audit_table, session_id)
        except QueryFailed:  # the table does not exist before the first flush
            return False
        return all(_row(beginning, story) is not None for beginning in beginnings)

    stage.say("system", f"asks the audit table for the story of {session_id}")
    stage.wait(all_there, f"rows {beginnings} in the audit table", within_s=_AUDIT_WITHIN_S)
    return story


def _row(beginning: str, story: list[dict[str, Any]]) -> str | None:
    return next((row["summary"] for row in story if (row["summary"] or "").startswith(beginning)), None)


def _audited(beginning: str, story: list[dict[str, Any]]) -> Fact:
    """Return whether the audit has a row whose summary has this prefix."""
    row = _row(beginning, story)
    return Fact(f"the audit has '{beginning.strip()} ...'", row is not None, row or "no such row")
