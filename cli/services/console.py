"""`haltline console`: the pages and the HTTP API."""

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from haltline.cli.audit_table import AuditGroup, StorageOption, options_of
from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, UsageErrors, option_of, print_json, say, token_in

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

RoleName = Literal["viewer", "agent", "operator", "admin"]
"""The values of Role, which is not imported here; a test compares both."""

console = typer.Typer()


@console.callback(invoke_without_command=True)
@with_cluster("group")
def serve(  # the options are the settings
    ctx: typer.Context,
    *,
    keys: Annotated[
        Path | None,
        option_of("console.keys", more="See `console key`. Default: one admin key is created and printed."),
    ] = None,
    oidc: Annotated[Path | None, option_of("console.oidc", more="Its users may sign in.")] = None,
    database: Annotated[str, option_of("console.database")] = "sqlite:///haltline-console.db",
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild", help="Rebuild the read model: from --audit-table, if there is one, then from the topics."
        ),
    ] = False,
    host: Annotated[str, option_of("console.host")] = "127.0.0.1",
    port: Annotated[int, option_of("console.port")] = 8460,
    metrics_port: Annotated[
        int | None,
        typer.Option(help="Also serve /metrics, without a key, on a port of its own; 0: any.", min=0, max=65535),
    ] = None,
    metrics_host: Annotated[str, typer.Option(help="Address of --metrics-port.")] = "127.0.0.1",
    metrics_token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with a bearer token for /metrics, which the key of any role opens too.", metavar="FILE"
        ),
    ] = None,
    link_key: Annotated[Path | None, option_of("console.link_key")] = None,
    audit_table: Annotated[
        str | None,
        option_of("audit.table", help="The audit table to search, to verify and to test policies on. Default: none."),
    ] = None,
    storage_option: StorageOption = None,
    audit_group: AuditGroup = "",
    audit_public_key: Annotated[Path | None, option_of("audit.public_key")] = None,
    by: Annotated[
        str, option_of("operator.name", help="User name of the printed sign-in link (role admin).", metavar="NAME")
    ] = "admin",
    link_digest: Annotated[
        str | None,
        typer.Option(hidden=True, help="SHA-256 of a link's token, by the process that starts this one and prints it."),
    ] = None,
    at: Cluster,
) -> None:
    """Serve the console and its API, until SIGTERM or Ctrl-C.

    The read model is built from the topics, and continues at its last offsets.

    Started on a terminal at an address of this machine, it prints a link that signs in once.

    Example: haltline console --keys keys.yaml --bootstrap kafka-1:9092
    """
    if ctx.invoked_subcommand is not None:
        return
    # The console is an extra of its own, and slow to import.
    from haltline.console.access.keys import Keys, Role, Who, digest_of, new_key
    from haltline.console.access.provider import Provider
    from haltline.console.access.sign_in_link import SignInLink, new_token
    from haltline.console.run import run
    from haltline.console.settings import ConsoleSettings
    from haltline.streams.notify.links import LinkKey

    with UsageErrors(OSError, ValueError):
        known = Keys.read(keys) if keys is not None else None
        provider = Provider.read(oidc) if oidc is not None else None
        token = None if metrics_token_file is None else token_in(metrics_token_file)
        links = None if link_key is None else LinkKey.read(link_key)
    if known is None:
        key = new_key()
        known = Keys.of([(key, Who("admin", Role.ADMIN))])
        say(f"Key of admin, for this run: {key}")
    one_time = new_token() if link_digest is None and sys.stdout.isatty() and host in _LOOPBACK else None
    if one_time is not None:
        link_digest = digest_of(one_time)
    workers = at.workers
    code = run(
        ConsoleSettings(
            bootstrap=at.bootstrap,
            keys=known,
            provider=provider,
            database=database,
            topics=at.topics,
            group=f"{workers}-console",
            workers=workers,
            sink=audit_group,
            client=at.client_config,
            metrics_token=token,
            sign_in_link=None if link_digest is None else SignInLink(link_digest, Who(by, Role.ADMIN)),
            link_key=links,
            audit_table=audit_table,
            audit_options=options_of(storage_option),
            audit_public_key=None if audit_public_key is None else str(audit_public_key),
        ),
        host,
        port,
        rebuild=rebuild,
        metrics_at=None if metrics_port is None else (metrics_host, metrics_port),
        token=one_time,
    )
    raise typer.Exit(code)


@console.command("key")
def make_key(
    name: Annotated[str, typer.Argument(help="The key's owner; recorded in the audit with every action of this key.")],
    role: Annotated[RoleName, typer.Option(help="What it may do.")] = "operator",
    *,
    as_json: AsJson = False,
) -> None:
    """Create a key, and print it with the lines for the file of keys. It is stored nowhere else.

    Example: haltline console key ada --role operator
    """
    from haltline.console.access.keys import digest_of, new_key

    key = new_key()
    digest = digest_of(key)
    if as_json:
        print_json({"key": key, "entry": {"name": name, "role": role, "sha256": digest}})
        return
    say(f"# the key, for {name} alone: {key}")
    for line in (f"- name: {json.dumps(name, ensure_ascii=False)}", f"  role: {role}", f"  sha256: {digest}"):
        say(line)
