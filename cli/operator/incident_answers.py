"""The output of `haltline incidents` and its commands."""

import time

import orjson
import typer

from haltline.cli.answers import operator_of
from haltline.cli.cluster import Cluster
from haltline.cli.common import Exit, ago, print_json, say, say_error
from haltline.cli.tables import print_table
from haltline.schemas.control import CommandKind
from haltline.schemas.incidents import IncidentRecord, IncidentState
from haltline.schemas.record import rfc3339
from haltline.streams.audit.incident import Report
from haltline.streams.audit.summary import of_incident
from haltline.streams.operator.ids import NotFound
from haltline.streams.operator.incidents import one_of
from haltline.streams.operator.kill_trail import UNCONFIRMED

_SHOWN_ID = 8


def list_incidents(at: Cluster, *, everything: bool, session: str | None, agent: str | None, as_json: bool) -> None:
    """Print the incidents; exit 1 if one is not resolved."""
    found = [
        record
        for record in operator_of(at).incidents()
        if (everything or record.state is not IncidentState.RESOLVED)
        and session in (None, record.session_id)
        and agent in (None, record.agent_id)
    ]
    if as_json:
        print_json([_json(record) for record in found])
    elif found:
        _print(found)
    else:
        say("no incident" if everything else "no incident is open")
    if any(record.state is not IncidentState.RESOLVED for record in found):
        raise typer.Exit(Exit.NO)


def show_incident(at: Cluster, incident_id: str, *, as_json: bool) -> None:
    """Prints an incident and its history."""
    operator = operator_of(at)
    try:
        revisions = operator.history(incident_id)
    except NotFound:
        if as_json or not (trail := operator.kill_trail(incident_id)):
            raise
        _print_trail(trail)  # a kill without an incident
        return
    if as_json:
        print_json([_json(record) for record in revisions])
        return
    last = revisions[-1]
    say(f"{last.incident_id}  {last.state}  {_about(last)}", style="bold")
    if last.assignee is not None or last.request_id is not None:
        say(f"assigned to {last.assignee or 'nobody'}; open request: {last.request_id or 'none'}")
    for record in revisions:
        say(f"{rfc3339(record.changed_at)}  {of_incident(record)}")
    _print_trail(operator.kill_trail(last.scope_id, last.scope))


def _print_trail(trail: list[str]) -> None:
    for line in trail:
        say(line, "red" if line == UNCONFIRMED else "")


def print_report(report: Report, *, as_json: bool) -> None:
    """Print the whole report of an incident."""
    if as_json:
        print_json(orjson.loads(report.to_json()))
        return
    say(f"{report.incident_id}  {report.severity}  session {report.session_id}", style="bold")
    say(report.summary)
    impact, advice = report.impact, report.recommendations
    took = "" if impact.duration_s is None else f" in {impact.duration_s:g} s"
    spent = ", ".join(f"{amount:g} {name}" for name, amount in impact.resources.items())
    for title, lines in (
        ("timeline", [f"{rfc3339(one.time) if one.time else '-':24}  {one.what}" for one in report.timeline]),
        ("impact", [f"{impact.actions} actions{took}", *filter(None, [spent]), *impact.things]),
        ("still running", impact.running),
        ("root cause", [report.root_cause]),
        ("contributing factors", report.contributing_factors),
        ("now", advice.immediate),
        ("next time", advice.preventive),
        ("configuration", advice.configuration),
        ("ways to continue", [f"{one.option}: {one.description}" for one in report.recovery_options]),
    ):
        if lines:
            say(f"{title}:", style="bold")
        for line in lines:
            say(f"  {line}")
    say(f"the last {len(report.last_actions)} actions before it:", style="bold")
    columns = ("time", "action", "targets", "outcome", "error")
    rows = (
        (rfc3339(one["time"]), str(one.get("action", "")), " ".join(one.get("targets", ())),
         str(one.get("outcome", "")), str(one.get("error", "")))
        for one in report.last_actions
    )  # fmt: skip
    print_table(columns, rows)


def act(
    kind: CommandKind,
    *,
    incident_id: str,
    by: str,
    reason: str,
    assignee: str | None = None,
    at: Cluster,
    as_json: bool,
) -> None:
    """Send a command about an incident and print the result; exit 1 if no worker answers."""
    found = operator_of(at)
    before = one_of(found.incidents(), incident_id)
    acted = found.act(kind, before, by=by, reason=reason, assignee=assignee)
    if as_json:
        after = None if acted.after is None else _json(acted.after)
        print_json({"command_id": acted.command.command_id, "answered": acted.after is not None, "incident": after})
    if acted.after is None:
        say_error(
            f"haltline: {kind} of incident {before.incident_id}: no worker has answered in time. It stays on the topic "
            "until a worker runs"
        )
        raise typer.Exit(Exit.NO)
    if not as_json:
        say(of_incident(acted.after))


def _json(record: IncidentRecord) -> object:
    return orjson.loads(record.to_json())


def _about(record: IncidentRecord) -> str:
    where = record.session_id if record.scope == "session" else f"{record.scope} {record.scope_id}"
    return f"{record.cause} of {where}: {record.level}, {record.count}x"


def _print(found: list[IncidentRecord]) -> None:
    now_ms = time.time_ns() // 1_000_000
    rows = (
        (
            record.incident_id[:_SHOWN_ID],
            record.state.value,
            record.level.value,
            record.severity.value if record.severity is not None else "",
            str(record.count),
            record.cause,
            record.scope_id if record.scope == "session" else f"{record.scope} {record.scope_id}",
            record.agent_id,
            f"{ago(record.last_at, now_ms)} ago",
            record.assignee or "",
            record.summary,
        )
        for record in found
    )
    columns = ("id", "state", "level", "severity", "times", "cause", "of", "agent", "last", "assigned to", "why")
    print_table(columns, rows)
