"""`haltline incidents`: list, show, acknowledge, assign, comment and resolve incidents."""

from typing import Annotated

import typer

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, By, Reason

IncidentId = Annotated[str, typer.Argument(help="The incident's id, or its beginning.", metavar="ID")]

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
    from haltline.cli.operator.incident_answers import list_incidents

    list_incidents(at, everything=everything, session=session, agent=agent, as_json=as_json)


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
    from haltline.cli.operator.incident_answers import show_incident

    show_incident(at, incident_id, as_json=as_json)


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
    from haltline.cli.operator.incident_answers import act
    from haltline.schemas.control import CommandKind

    act(at, CommandKind.ACKNOWLEDGE, incident_id, by=by, reason=reason, as_json=as_json)


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
    from haltline.cli.operator.incident_answers import act
    from haltline.schemas.control import CommandKind

    act(at, CommandKind.ASSIGN, incident_id, by=by, reason=reason, assignee=assignee, as_json=as_json)


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
    from haltline.cli.operator.incident_answers import act
    from haltline.schemas.control import CommandKind

    act(at, CommandKind.COMMENT, incident_id, by=by, reason=text, as_json=as_json)


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
    from haltline.cli.operator.incident_answers import act
    from haltline.schemas.control import CommandKind

    act(at, CommandKind.RESOLVE, incident_id, by=by, reason=reason, as_json=as_json)


def register(root: typer.Typer) -> None:
    """Adds the commands."""
    root.add_typer(app, name="incidents")
