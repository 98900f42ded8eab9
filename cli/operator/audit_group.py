"""The commands of the group `haltline audit`."""

import typer

from haltline.cli.operator import audit_maintenance, audit_query, audit_records, labels


def register(audit: typer.Typer) -> None:
    """Adds them to the group, in the order of its help."""
    audit_query.register(audit)
    audit_records.register(audit)
    labels.register_audit(audit)
    audit_maintenance.register(audit)
