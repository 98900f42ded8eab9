"""`haltline incidents`: list, show, acknowledge, assign, comment and resolve incidents."""

import time
from typing import Annotated

import orjson
import typer
from rich.table import Table
from rich.text import Text

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import (
    AsJson,
    By,
    Exit,
    Reason,
    ago,
    console,
    print_json,
    printable,
    say,
    say_error,
)
from haltline.schemas.control import CommandKind
from haltline.schemas.incidents import IncidentRecord, IncidentState
from haltline.schemas.record import rfc3339
from haltline.streams.audit.summary import of_incident
from haltline.streams.operator.incidents import Incidents, one_of

IncidentId = Annotated[str, typer.Argument(help="The incident's id, or its beginning.", metavar="ID")]

_SHOWN_ID = 8

app = typer.Typer(invoke_without_command=True)


@app.callback()
@with_cluster()
def listed(
    context: typer.Context,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also those that are resolved.")] = False,
    session: Annotated[str | None, typer.Option(help="Only of this session.", metavar="SESSION")] = None,
    agent: Annotated[str | None, typer.Option(help="Only of this agent.", metavar="AGENT")] = None,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Show the open incidents, the worst first: one for each session and cause. Exit 1 when there are some.

    Example: haltline incidents --agent cleaner
    """
    if context.invoked_subcommand is not None:
        return
    found = [
        record
        for record in _incidents(at).incidents()
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


@app.command()
@with_cluster()
def show(
    *,
    incident_id: IncidentId,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Show one incident and its history.

    Example: haltline incidents show 4f1c09ab
    """
    revisions = _incidents(at).history(incident_id)
    if as_json:
        print_json([_json(record) for record in revisions])
        return
    last = revisions[-1]
    say(f"{last.incident_id}  {last.state}  {_about(last)}", style="bold")
    if last.assignee is not None or last.request_id is not None:
        say(f"assigned to {last.assignee or 'nobody'}; open request: {last.request_id or 'none'}")
    for record in revisions:
        say(f"{rfc3339(record.changed_at)}  {of_incident(record)}")


@app.command()
@with_cluster("timeout")
def acknowledge(
    *,
    incident_id: IncidentId,
    by: By,
    reason: Reason,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Acknowledge an incident: you have seen it and look after it. Exit 1 when no worker answers.

    Example: haltline incidents acknowledge 4f1c09ab --by ada --reason 'looking at it'
    """
    found = _incidents(at)
    _act(found, CommandKind.ACKNOWLEDGE, incident_id, by=by, reason=reason, as_json=as_json)


@app.command()
@with_cluster("timeout")
def assign(
    *,
    incident_id: IncidentId,
    assignee: Annotated[str, typer.Argument(help="The assignee.", metavar="NAME")],
    by: By,
    reason: Reason,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Assign an incident to a person.

    Example: haltline incidents assign 4f1c09ab bo --by ada --reason 'owns the table'
    """
    found = _incidents(at)
    _act(found, CommandKind.ASSIGN, incident_id, by=by, reason=reason, assignee=assignee, as_json=as_json)


@app.command()
@with_cluster("timeout")
def comment(
    *,
    incident_id: IncidentId,
    text: Annotated[str, typer.Argument(help="The comment.", metavar="TEXT")],
    by: By,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Add a comment to an incident.

    Example: haltline incidents comment 4f1c09ab 'restored from the backup of noon' --by ada
    """
    found = _incidents(at)
    _act(found, CommandKind.COMMENT, incident_id, by=by, reason=text, as_json=as_json)


@app.command()
@with_cluster("timeout")
def resolve(
    *,
    incident_id: IncidentId,
    by: By,
    reason: Reason,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Close an incident; its open approval request is refused. What trips again opens another one.

    Example: haltline incidents resolve 4f1c09ab --by ada --reason 'the tool is fixed'
    """
    found = _incidents(at)
    _act(found, CommandKind.RESOLVE, incident_id, by=by, reason=reason, as_json=as_json)


def _incidents(at: Cluster) -> Incidents:
    return Incidents(
        at.bootstrap, topics=at.topics, group=at.workers, answer_within_s=at.timeout, client=at.client_config
    )


def _act(
    found: Incidents,
    kind: CommandKind,
    incident_id: str,
    *,
    by: str,
    reason: str,
    assignee: str | None = None,
    as_json: bool,
) -> None:
    before = one_of(found.incidents(), incident_id)
    acted = found.act(kind, before, by=by, reason=reason, assignee=assignee)
    if as_json:
        after = None if acted.after is None else _json(acted.after)
        print_json({"command_id": acted.command.command_id, "answered": acted.after is not None, "incident": after})
    if acted.after is None:
        say_error(
            f"haltline: {kind} of incident {before.incident_id}: no worker has answered in time. It stays on the topic "
            "for when one runs"
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
    table = Table("id", "state", "level", "severity", "times", "cause", "of", "agent", "last", "assigned to", "why")
    for record in found:
        cells = (
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
        table.add_row(*(Text(printable(cell)) for cell in cells))
    console().print(table)


def register(root: typer.Typer) -> None:
    """Adds the commands."""
    root.add_typer(app, name="incidents")
