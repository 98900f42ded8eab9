"""`haltline incidents`: list, show, report, acknowledge, assign, comment and resolve incidents."""

from typing import Annotated, Any

import typer

from haltline.cli.audit_table import DEFAULT_TABLE, AuditTable, StorageOption, options_of
from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson
from haltline.cli.operator.acts import add
from haltline.schemas.acts import ON_INCIDENTS

IncidentId = Annotated[str, typer.Argument(help="The incident's id, or its beginning.", metavar="ID")]

incidents = typer.Typer(invoke_without_command=True)


@incidents.callback()
@with_cluster()
def listed(
    context: typer.Context,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also resolved incidents.")] = False,
    session: Annotated[str | None, typer.Option(help="Only this session.", metavar="SESSION")] = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent.", metavar="AGENT")] = None,
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


@incidents.command()
@with_cluster()
def show(
    *,
    incident_id: IncidentId,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Show one incident and its history, and what became of a kill: acknowledged, confirmed by actuators, or neither.

    A killed session's id, or an agent's, shows its kill where there is no incident.

    Example: haltline incidents show 4f1c09ab
    """
    from haltline.cli.operator.incident_answers import show_incident

    show_incident(at, incident_id, as_json=as_json)


@incidents.command()
def report(
    *,
    incident_id: Annotated[
        str, typer.Argument(help="The incident's id, or its beginning; or a killed session's id.", metavar="ID")
    ],
    table: AuditTable = DEFAULT_TABLE,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
) -> None:
    """Print the whole report of an incident from the audit table: what happened, its cause, and what to do next.

    It has the timeline, impact, root cause, recommendations, ways to continue, and the last 50 actions before its
    hardest decision, without arguments and outputs. Exit 1 when there is none.

    Example: haltline incidents report 4f1c09ab --json > incident.json
    """
    from haltline.cli.operator.incident_answers import print_report
    from haltline.streams.audit.archive import Archive

    print_report(Archive(table, options_of(storage_option)).report(incident_id), as_json=as_json)


def _act(name: str, **given: Any) -> None:
    from haltline.cli.operator.incident_answers import act
    from haltline.schemas.control import CommandKind

    act(CommandKind(name), **given)


add(incidents, ON_INCIDENTS, _act, group=False)
