"""`haltline incident`: one session in one file, with the proof that it is unchanged."""

from pathlib import Path
from typing import Annotated

import typer

from haltline.cli.audit_table import DEFAULT_TABLE, AuditTable, StorageOption, options_of
from haltline.cli.common import DEFAULT_PREFIX, AsJson, Exit, PolicyFile, PolicyName, Prefix, fail, print_json, say
from haltline.cli.sources import Sink, say_unread
from haltline.schemas.topics import Topics


def incident(
    session: Annotated[str, typer.Argument(help="The session.", metavar="SESSION")],
    *,
    out: Annotated[Path, typer.Option(help="The file to write.", metavar="FILE")],
    policy: PolicyFile = None,
    policy_name: PolicyName = "default",
    prefix: Prefix = DEFAULT_PREFIX,
    table: AuditTable = DEFAULT_TABLE,
    storage_option: StorageOption = None,
    sink: Sink = None,
    as_json: AsJson = False,
) -> None:
    """Write a session from the audit table into one zip: its actions, the decisions and their reasons, and the proof.

    In it: events, decisions, findings, commands, control entries, the policy, the session's state when it was stopped,
    its part of the hash chains with the signed statements over it, and report.html. On any machine, `haltline replay
    FILE` checks all of it and decides again. Exit 1 when the decisions differ here, or when the session is unknown.

    Example: haltline incident session-42 --out session-42.zip && haltline replay session-42.zip
    """
    from haltline.cli.policy_option import read_plugins, read_policy
    from haltline.streams.audit.query import session_in
    from haltline.streams.incident.bundle import read_bundle, write_bundle
    from haltline.streams.incident.check import check
    from haltline.streams.incident.collect import collect
    from haltline.streams.replay.table_range import TableRange

    plugins = read_plugins()
    chosen = read_policy(policy) if policy is not None else None
    try:
        found = TableRange(table, Topics(prefix), sink=sink, storage_options=options_of(storage_option))
        say_unread(found.unread)
        session = session_in(found.rows, session)
        collected = collect(found, session, policy=chosen, name=policy_name, plugins=plugins)
        write_bundle(out, collected.manifest, collected.files)
        bundle = read_bundle(out)
    except OSError as error:
        fail(f"{out}: {error.strerror or error}", Exit.USAGE)
    checked = check(bundle, plugins=plugins)
    compared = checked.replayed.compared
    if as_json:
        print_json({**bundle.manifest, "replay": compared.to_dict(), "proof": {"links": checked.proved.links,
                    "problems": checked.proved.problems, "partitions_unsigned": collected.unsigned}})  # fmt: skip
    else:
        stop = collected.stop
        stopped = "not stopped" if stop is None else f"{stop.level.value} {stop.code}"
        say(f"{out}: session {session}, {stopped}, {len(bundle.files)} files")
        say(f"decided again: {compared.same} of {compared.recorded} decisions the same, bit for bit")
        unsigned = f"; nothing is signed yet in {collected.unsigned} partitions" if collected.unsigned else ""
        say(f"proof: {checked.proved.records} records in {checked.proved.links} links of hash chains{unsigned}")
        differing = [f"first divergence: {one}" for one in (compared.first, *compared.incidents.different[:1]) if one]
        for line in differing + checked.proved.problems[:5]:
            say(line, style="red")
    if not checked.ok:
        raise typer.Exit(Exit.NO)
