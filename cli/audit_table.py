"""The options that select the audit table."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from haltline.cli.common import DEFAULT_PREFIX, group_of, option_of

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


def sinks_of(prefix: str) -> str:
    """The default consumer group of the audit sinks for a topic prefix."""
    return f"{group_of(prefix)}-audit"


def _sinks(ctx: typer.Context, value: str) -> str:
    return value or sinks_of(ctx.params.get("prefix", DEFAULT_PREFIX))


def audit_group(flag: str = "--audit-group") -> Any:
    """The option of the audit sinks' consumer group."""
    more = "Default: the prefix without its dot, with -audit."
    return option_of("audit.group", flag, more=more, metavar="NAME", callback=_sinks, show_default=False)


AuditGroup = Annotated[str, audit_group()]


def options_of(storage_option: Sequence[str] | None) -> dict[str, str]:
    """Store settings from `NAME=VALUE` options."""
    return dict(option.partition("=")[::2] for option in storage_option or [])
