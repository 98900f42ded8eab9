"""The two acts of the demonstration, and the facts that each must produce."""

from contextlib import suppress
from dataclasses import dataclass

from haltline.schemas.control import control_key
from haltline.schemas.decisions import Level, ScopeKind
from haltline.streams.audit.query import QueryFailed, session_story
from haltline.streams.demo.agent_kit import EXIT_STOPPED
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
    acknowledged = _acknowledged(stage)
    stage.say("system", "the agent's process is started again, as a supervisor would")
    second = stage.run_agent("brittle-2", "brittle_agent", BRITTLE_SESSION, "--pause-s", f"{pause_s:g}")
    requests = stage.catalogue.requests

    # Only a person can release it, with a reason.
    reset = ("reset", BRITTLE_SESSION, "--by", OPERATOR, "--reason")
    unreasoned = stage.command("reset-1", *reset, "")
    still_killed = control_key(ScopeKind.SESSION, BRITTLE_SESSION) in stage.control
    released = stage.command("reset-2", *reset, "task corrected: report it instead of deleting it again")
    cured = stage.run_agent("brittle-3", "brittle_agent", BRITTLE_SESSION, "--cured")
    return [
        *_stopped(stage, first, second),
        Fact(
            f"the catalogue saw two deletes of {STUCK}, and nothing after the refusal",
            [(request.method, request.asset_id) for request in requests] == [("DELETE", STUCK)] * 2,
            f"{len(requests)} requests",
        ),
        acknowledged,
        _audited(stage, BRITTLE_SESSION, "session_killed: loop_detected, 3 deletes on asset_id=fact_sales in "),
        Fact("a reset without a reason is refused", unreasoned == 2 and still_killed, f"exit code {unreasoned}"),
        Fact(
            "after an operator's reset the session works again, with a corrected task",
            released == 0 and cured.child.exit_code == 0 and not cured.refused and _was_deleted(stage, COPY),
            f"{len(cured.answered)} calls made, {len(cured.refused)} refused",
        ),
        _audited(stage, BRITTLE_SESSION, f"session_reset by {OPERATOR}: task corrected"),
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
    return [
        Fact(
            f"a declared clean-up of {len(STAGING)} assets is not stopped",
            declared == 0 and agent.child.exit_code == 0 and len(deleted) == len(STAGING),
            f"{len(deleted)} deleted, {len(agent.refused)} refused, hardest decision {hardest}",
        ),
        _audited(stage, BULK_SESSION, f"session_batch by {OPERATOR}: quarterly"),
    ]


def _stopped(stage: Stage, first: Agent, second: Agent) -> list[Fact]:
    """Return whether the first process was stopped at its third delete, and the second at its first call."""
    codes = {line.partition(" REFUSED (")[2].rstrip(")") for line in (*first.refused, *second.refused)}
    advised = any(line.startswith("hears (loop_suspected)") for line in first.reports)
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


def _acknowledged(stage: Stage) -> Fact:
    """Return whether the agent's side has acknowledged the stop."""
    key = control_key(ScopeKind.SESSION, BRITTLE_SESSION)
    stage.wait(
        lambda: (record := stage.control.get(key)) is not None and record.stopped_at is not None,
        "the agent's side to acknowledge the kill",
        within_s=_CONTROL_WITHIN_S,
    )
    time_to_stop_ms = stage.control[key].time_to_stop_ms
    return Fact("the kill was acknowledged, not only sent", time_to_stop_ms is not None, f"{time_to_stop_ms} ms")


def _was_deleted(stage: Stage, asset_id: str) -> bool:
    return any(r.method == "DELETE" and r.asset_id == asset_id and r.answer == GONE for r in stage.catalogue.requests)


def _audited(stage: Stage, session_id: str, beginning: str) -> Fact:
    """Return that the audit has a row of the session whose summary has this prefix, once it has."""
    found: list[str] = []

    def is_there() -> bool:
        with suppress(QueryFailed):  # the table does not exist before the first flush
            summaries = (row["summary"] or "" for row in session_story(stage.audit_table, session_id))
            found[:] = [summary for summary in summaries if summary.startswith(beginning)]
        return bool(found)

    stage.wait(is_there, f"'{beginning}' in the audit table", within_s=_AUDIT_WITHIN_S)
    return Fact(f"the audit has '{beginning.strip()} ...'", holds=True, seen=found[0])
