"""The sessions that a kill would stop, and those that it has stopped: human-readable or JSON."""

import time
from datetime import timedelta

import typer

from haltline.cli.answers import named, story
from haltline.cli.common import Exit, ago, print_json, say
from haltline.cli.tables import print_table
from haltline.streams.operator.blast_radius import BlastRadius, Stopped
from haltline.streams.operator.client import CommandResult


def show_impact(impact: BlastRadius, lookback: timedelta, *, as_json: bool) -> None:
    """Print the preview."""
    if as_json:
        print_json(
            {
                "scope": impact.scope,
                "id": impact.scope_id,
                "agents": impact.agents,
                "sessions": [
                    {"session_id": s.session_id, "agent_id": s.agent_id, "last": s.last_ms} for s in impact.sessions
                ],
            }
        )
        return
    many, agents = len(impact.sessions), len(impact.agents)
    sessions = f"{many} session" + ("" if many == 1 else "s")
    say(
        f"this would stop {sessions} of {agents} agent{'' if agents == 1 else 's'} "
        f"(active in the last {lookback}, and not ended). Nothing was done"
    )
    if not impact.sessions:
        return
    now_ms = time.time_ns() // 1_000_000
    rows = ((seen.session_id, seen.agent_id, f"{ago(seen.last_ms, now_ms)} ago") for seen in impact.sessions)
    print_table(("session", "agent", "last event"), rows)


def show_stopped(answer: CommandResult, stopped: Stopped, *, as_json: bool) -> None:
    """Print the sessions that have stopped; exit 1 if one has not stopped in time."""
    if as_json:
        print_json(
            {
                "command": answer.command,
                "after": answer.after,
                "stopped_ms": dict(stopped.by_session),
                "silent": stopped.silent,
            }
        )
    else:
        note = "" if answer.after is None else f": {story(answer.after)}"
        say(f"{named(answer)} is killed{note}")
        for session, took_ms in stopped.by_session.items():
            say(f"  {session} stopped" + ("" if took_ms is None else f" {took_ms} ms after the decision"))
        for session in stopped.silent:
            say(f"  {session} has NOT acknowledged the stop", "red")
    if stopped.silent:
        raise typer.Exit(Exit.NO)
