"""`haltline audit interventions` and `haltline audit incident`: intervention records, and the report of a stop."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from haltline.cli.audit_table import DEFAULT_TABLE, AuditTable, StorageOption, options_of
from haltline.cli.common import AsJson, Exit, fail, print_json, say
from haltline.cli.tables import print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from haltline.schemas.decisions import Decision
    from haltline.streams.audit.archive import Archive

# The values of RecordType, RecordOutcome and RiskLevel, which are not imported here; a test compares them.
TypeName = Literal[
    "hard_block", "approval_required", "rate_limited", "budget_exceeded", "downgrade", "warning", "budget_warning",
    "missing_evidence", "pii_blocked", "content_blocked", "loop_detected", "idempotent_replay",
]  # fmt: skip
OutcomeName = Literal["blocked", "escalated", "approved_after_review", "rejected_after_review", "modified", "warned"]
RiskName = Literal["critical", "high", "medium", "low", "minimal"]

_FORMATS: Final = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]


def interventions(
    *,
    kind: Annotated[TypeName | None, typer.Option("--type", help="Only this type.")] = None,
    outcome: Annotated[OutcomeName | None, typer.Option(help="Only this outcome.")] = None,
    risk: Annotated[RiskName | None, typer.Option(help="Only this risk level.")] = None,
    session: Annotated[str | None, typer.Option(help="Only this session.", metavar="ID")] = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent.", metavar="ID")] = None,
    rule: Annotated[str | None, typer.Option(help="Only this rule.", metavar="RULE")] = None,
    action: Annotated[str | None, typer.Option(help="Only this tool.", metavar="NAME")] = None,
    since: Annotated[datetime | None, typer.Option(help="Only from this time on, UTC.", formats=_FORMATS)] = None,
    until: Annotated[datetime | None, typer.Option(help="Only before this time, UTC.", formats=_FORMATS)] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of records; the newest are shown.", min=1, max=1000)] = 50,
    stats: Annotated[bool, typer.Option("--stats", help="Print counts and sums as JSON instead.")] = False,
    table: AuditTable = DEFAULT_TABLE,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
) -> None:
    """List intervention records: what was prevented or changed, with outcome, risk, blast radius and cost.

    A repeated call counts its cost once. Exit 1 when there is none. With --stats also whether hints helped, by rule
    (`advice`): what the session did in its next ten actions.

    Example: haltline audit interventions --type loop_detected --json

    Example: haltline audit interventions --stats
    """
    from haltline.schemas.record import rfc3339
    from haltline.streams.audit.archive import Archive
    from haltline.streams.audit.query import conditions, open_query, session_in
    from haltline.streams.audit.records import records_of, statistics

    session = None if session is None else session_in(open_query(table, options_of(storage_option)).rows, session)
    start, end = (None if moment is None else moment.replace(tzinfo=UTC) for moment in (since, until))
    where = " AND ".join(conditions(session_id=session, agent_id=agent, since=start, until=end))
    archive = Archive(table, options_of(storage_option))
    decisions = archive.decisions(where)
    records = records_of(decisions, archive.proposals([decision.event_id for decision in decisions]))
    records = [
        record
        for record in records
        if kind in (None, record.type) and outcome in (None, record.outcome) and risk in (None, record.risk_level)
        if action in (None, record.action_name) and rule in (None, record.policy_id)
    ]
    if not records:
        fail(f"audit table {table}: expected interventions, got none", Exit.NO)
    if stats:
        print_json({**statistics(records), "advice": _advice(archive, decisions, where)})
    elif as_json:
        shown = records[-limit:]
        print_json({"interventions": shown, "total": len(records), "skip": len(records) - len(shown), "limit": limit})
    else:
        columns = ("timestamp", "type", "outcome", "risk", "action", "attempt", "prevented $", "session", "reason")
        rows = (
            (
                rfc3339(one.timestamp), one.type, one.outcome, one.risk_level, one.action_name, str(one.attempt),
                f"{one.cost_prevented_usd:g}", one.run_id, one.reason,
            )
            for one in records[-limit:]
        )  # fmt: skip
        print_table(columns, rows)


def _advice(archive: "Archive", decisions: "Sequence[Decision]", where: str) -> list[dict[str, object]]:
    """The results of each rule's hints."""
    from haltline.interventions.hint_effectiveness import by_rule, is_hint

    sessions = sorted({decision.session_id for decision in decisions if is_hint(decision)})
    found = archive.detections(where) if sessions else []
    return [rule.to_dict() for rule in by_rule(decisions, found, archive.events_of(sessions))]


def incident(
    session: Annotated[str, typer.Argument(help="The session's id, or its beginning.", metavar="SESSION")],
    incident_id: Annotated[
        str | None,
        typer.Option(
            "--id", help="The id of an incident or decision, where the session has several. Default: the last."
        ),
    ] = None,
    *,
    table: AuditTable = DEFAULT_TABLE,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
) -> None:
    """Print the full report of a stop: timeline, impact, root cause, what to do, and the last 50 actions before it.

    Exit 1 when the session was not stopped by haltline.

    Example: haltline audit incident session-42
    """
    from haltline.schemas.record import rfc3339
    from haltline.streams.audit.archive import Archive
    from haltline.streams.audit.incident import stop_of, whole
    from haltline.streams.audit.query import literal, open_query, session_in

    archive = Archive(table, options_of(storage_option))
    session = session_in(open_query(table, options_of(storage_option)).rows, session)
    decisions = archive.decisions(f'"session_id" = {literal(session)}')
    stop = stop_of(decisions, incident_id)
    events = archive.events_of([session])[session] if stop is not None else []
    if stop is None:
        fail(f"audit table {table}: expected a stop of session {session!r}, got none", Exit.NO)
    report, actions = whole(stop, decisions, events)
    if as_json:
        print_json({"decision_id": stop.decision_id, "incident": report, "action_history": actions})
        return
    say(f"{report.incident_id}  {report.severity}  {report.summary}", style="bold")
    say(f"root cause: {report.root_cause}")
    spent = ", ".join(f"{name} {amount:g}" for name, amount in report.impact.resources.items())
    lasted = "" if report.impact.duration_s is None else f" in {report.impact.duration_s:g} s"
    touched = ", ".join(report.impact.things) or "nothing"
    say(f"impact: {report.impact.actions} actions{lasted}; touched: {touched}; {spent}")
    for title, lines in (
        ("contributing", report.contributing_factors),
        ("now", report.recommendations.immediate),
        ("next time", report.recommendations.preventive),
        ("configuration", report.recommendations.configuration),
        ("options", tuple(f"{option.option}: {option.description}" for option in report.recovery_options)),
        ("timeline", tuple(f"{rfc3339(m.time) if m.time else '-'}  {m.what}" for m in report.timeline)),
    ):
        for line in lines:
            say(f"{title}: {line}")
    rows = (
        (
            rfc3339(act["time"]),
            act.get("action", ""),
            " ".join(act.get("targets", ())),
            act.get("outcome", "-"),
            act.get("error", ""),
        )
        for act in actions
    )
    print_table(("time", "action", "targets", "outcome", "error"), rows, title=f"the last {len(actions)} actions")


def register(audit: typer.Typer) -> None:
    """Adds the commands to the group `audit`."""
    for command in (interventions, incident):
        audit.command(rich_help_panel="Query")(command)
