"""The options by which a command finds the audit table."""

from collections.abc import Sequence
from typing import Annotated

import typer

DEFAULT_TABLE = ".haltline/audit"
AuditTable = Annotated[
    str,
    typer.Option(
        envvar="HALTLINE_AUDIT_TABLE", help="A folder, or the URI of a table in a store (s3://...).", metavar="DIR"
    ),
]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(
        envvar="HALTLINE_AUDIT_STORAGE_OPTIONS",
        help="For a store, such as AWS_REGION=eu-north-1; may be repeated.",
        metavar="NAME=VALUE",
    ),
]


def options_of(storage_option: Sequence[str] | None) -> dict[str, str]:
    """Store settings from `NAME=VALUE` options."""
    return dict(option.partition("=")[::2] for option in storage_option or [])
