"""`haltline audit labels`: operators' labels of decisions, and precision by rule."""

from typing import Annotated

import typer

from haltline.cli.audit_table import DEFAULT_TABLE, AuditTable, StorageOption, options_of
from haltline.cli.common import AsJson, Exit, PolicyFile, fail, print_json, say, tracked
from haltline.cli.tables import print_table


def labels(
    *,
    table: AuditTable = DEFAULT_TABLE,
    storage_option: StorageOption = None,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Try other thresholds on the labelled sessions. Changes nothing.")
    ] = False,
    policy: PolicyFile = None,
    as_json: AsJson = False,
) -> None:
    """Print how often each rule was right, by the operators' labels (`haltline label`, `haltline missed`).

    With --suggest: which other threshold would have been better in the labelled sessions. None is ever applied
    automatically: try it with `haltline backtest --policy`, then publish it. Exit 1 when nothing is labelled.

    Example: haltline audit labels --suggest --policy production.yaml
    """
    from haltline.cli.policy_option import read_policy
    from haltline.streams.audit.archive import Archive
    from haltline.streams.replay.label_precision import by_rule, recorded
    from haltline.streams.replay.label_precision import suggest as suggestion_for

    archive = Archive(table, options_of(storage_option))
    rules = by_rule(archive.labels(), archive.labelled())
    names = sorted({name for rule in rules for name in (*rule.confirmed, *rule.false_alarms, *rule.missed)})
    events = archive.events_of(names) if suggest else {}
    sessions = {name: recorded(name, of) for name, of in events.items()}
    if not rules:
        fail(f"audit table {table}: expected decisions that are labelled, got none", Exit.NO)
    in_force = read_policy(policy)
    looked = tracked(rules, "Rules") if suggest else ()
    found = [one for rule in looked if (one := suggestion_for(rule, sessions, in_force)) is not None]
    if as_json:
        print_json(
            {
                "rules": [rule.to_dict() for rule in rules],
                "suggestions": [{**one.to_dict(), "policy": one.policy} for one in found],
            }
        )
        return
    rows = []
    for rule in rules:
        cells = rule.to_dict()
        shares = ("-" if cells[name] is None else f"{cells[name]:.0%}" for name in ("precision", "recall"))
        rows.append((rule.rule, *(str(cells[name]) for name in ("confirmed", "false_alarm", "missed")), *shares))
    print_table(("rule", "confirmed", "false alarms", "missed", "precision", "recall"), rows)
    for one in found:
        say(
            f"{one.rule}: {one.setting} {one.instead_of:g} -> {one.value:g} leaves {one.false_alarms_left} of "
            f"{one.false_alarms} false alarms, keeps {one.confirmed_kept} of {one.confirmed} confirmed, finds "
            f"{one.missed_found} of {one.missed} missed. Not applied; to try it: {one.policy}"
        )
    if suggest and not found:
        say("no other threshold of one setting would have been better in the labelled sessions")


def register(audit: typer.Typer) -> None:
    """Adds the command to the group `audit`."""
    audit.command(rich_help_panel="Query")(labels)
