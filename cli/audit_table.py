"""The options that select the audit table."""

from collections.abc import Sequence
from typing import Annotated

from haltline.cli.common import option_of

DEFAULT_TABLE = ".haltline/audit"
AuditTable = Annotated[str, option_of("audit.table", help="A folder, or the URI of a table in a store (s3://...).")]
StorageOption = Annotated[
    list[str] | None,
    option_of(
        "audit.storage_options",
        help="For a store, such as AWS_REGION=eu-north-1; may be repeated.",
        metavar="NAME=VALUE",
    ),
]


def options_of(storage_option: Sequence[str] | None) -> dict[str, str]:
    """Store settings from `NAME=VALUE` options."""
    return dict(option.partition("=")[::2] for option in storage_option or [])
