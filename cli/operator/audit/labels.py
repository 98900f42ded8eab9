"""`haltline audit labels`: operators' labels of decisions, and precision by rule."""

import typer

from haltline.cli.audit_table import DEFAULT_TABLE, AuditTable, StorageOption, options_of
from haltline.cli.common import AsJson, Exit, fail, print_json
from haltline.cli.tables import print_table


def labels(
    *,
    table: AuditTable = DEFAULT_TABLE,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
) -> None:
    """Print how often each rule was right, by the operators' labels (`haltline label`, `haltline missed`).

    Exit 1 when nothing is labelled. Other thresholds are proposed by `haltline calibrate`, and tried by `haltline
    backtest --sweep`.

    Example: haltline audit labels --json
    """
    from haltline.streams.audit.archive import Archive
    from haltline.streams.replay.label_precision import by_rule

    archive = Archive(table, options_of(storage_option))
    rules = by_rule(archive.labels(), archive.labelled())
    if not rules:
        fail(f"audit table {table}: expected decisions that are labelled, got none", Exit.NO)
    if as_json:
        print_json({"rules": [rule.to_dict() for rule in rules]})
        return
    rows = []
    for rule in rules:
        cells = rule.to_dict()
        shares = ("-" if cells[name] is None else f"{cells[name]:.0%}" for name in ("precision", "recall"))
        rows.append((rule.rule, *(str(cells[name]) for name in ("confirmed", "false_alarm", "missed")), *shares))
    print_table(("rule", "confirmed", "false alarms", "missed", "precision", "recall"), rows)


def register(audit: typer.Typer) -> None:
    """Adds the command to the group `audit`."""
    audit.command(rich_help_panel="Query")(labels)
