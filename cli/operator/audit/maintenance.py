"""`haltline audit keygen`, `verify`, `witness`, `compact`, `retain`, `erase`: proof and maintenance."""

import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from haltline.cli.audit_table import DEFAULT_TABLE, AuditTable, StorageOption, options_of
from haltline.cli.cluster import with_options
from haltline.cli.common import (
    DEFAULT_PREFIX,
    AsJson,
    Exit,
    MetricsHost,
    MetricsPort,
    Prefix,
    duration,
    fail,
    option_of,
    print_json,
    say,
    say_error,
)
from haltline.schemas.topics import Topics

if TYPE_CHECKING:
    from haltline.streams.audit.maintenance import Caretaker
    from haltline.streams.audit.verify import Verification, Verifier
    from haltline.streams.runtime.metrics import Metrics


By = Annotated[str, option_of("operator.name", help="Your name, for the audit.", metavar="NAME")]
Why = Annotated[str, typer.Option(help="Why, for the audit.", metavar="TEXT")]
Key = Annotated[
    Path | None,
    option_of(
        "audit.signing_key", help="Private key that signs the statement of the change; required if the table is signed."
    ),
]
Sink = Annotated[str, typer.Option(help="The sink that wrote the rows.", metavar="NAME")]


def keygen(
    file: Annotated[Path, typer.Argument(help="Where the private key goes; the public one goes beside it (.pub).")],
    *,
    as_json: AsJson = False,
) -> None:
    """Create a pair of keys for signing the audit. Keep the private one where only the sink can read it.

    Example: haltline audit keygen /etc/haltline/audit-key.pem
    """
    from haltline.schemas.keys import make_keys

    try:
        public = make_keys(file)
    except FileExistsError:
        fail(
            f"{file}: expected no file there, got one: a key that has signed is needed to prove what it signed",
            Exit.USAGE,
        )
    except OSError as error:
        fail(f"{file}: {error.strerror or error}", Exit.USAGE)
    if as_json:
        print_json({"private_key": str(file), "public_key": str(public)})
        return
    say(f"private key: {file}")
    say(f"public key: {public}")


def verify(
    *,
    table: AuditTable = DEFAULT_TABLE,
    storage_option: StorageOption = None,
    prefix: Prefix = DEFAULT_PREFIX,
    public_key: Annotated[
        Path | None,
        option_of(
            "audit.public_key", help="Public key to check signatures with. Default: only the chains are checked."
        ),
    ] = None,
    witness: Annotated[
        Path | None, typer.Option(help="Checkpoints kept elsewhere by `audit witness`.", metavar="FILE")
    ] = None,
    every: Annotated[
        timedelta | None,
        typer.Option(help="Repeat at this interval until Ctrl-C. Default: run once.", parser=duration, metavar="TIME"),
    ] = None,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_port: MetricsPort = 9467,
    as_json: AsJson = False,
) -> None:
    """Verify that no record of the table was changed, removed, added, duplicated or moved, or name the first that was.

    VERIFIED: chains and signatures are valid (--public-key). INTACT, UNSIGNED: the chains are valid, and no key was
    given, so a process that can write the table could have rewritten all of it. NOT INTACT: a check has failed.

    Exit 0 for the first two; with --public-key an unsigned table is not intact. Exit 1 when a check has failed, 2 when
    there is no table or no such key. Works while sinks write, on the table as it was at the start. With --every the
    result is on /metrics (deploy/prometheus has alerts on it) and, with --json, one object per line.

    Example: haltline audit verify --table /srv/haltline/audit --public-key audit-key.pem.pub
    """
    from deltalake.exceptions import DeltaError

    from haltline.cli.operator.repeating import repeat
    from haltline.schemas.keys import BadKey, load_public_key
    from haltline.streams.audit.verify import Verifier
    from haltline.streams.runtime.metrics import Metrics

    def once() -> "Verification":
        try:
            key = load_public_key(public_key) if public_key is not None else None
            kept = _witnessed(witness) if witness is not None else []
            verifier = Verifier(table, options_of(storage_option), topics=Topics(prefix), public_key=key, witness=kept)
        except DeltaError as error:
            raise OSError(str(error)) from error
        _verify(verifier, as_json=as_json, on_one_line=every is not None)
        return verifier.found

    try:
        if every is not None:
            metrics = Metrics("verifier")
            repeat(
                "audit verify", every, lambda: record_verification(metrics, once), metrics, (metrics_host, metrics_port)
            )
        found = once()
    except (BadKey, OSError) as error:
        fail(f"audit verify: {error}", Exit.USAGE)
    if not found.ok:
        raise typer.Exit(Exit.NO)


def record_verification(metrics: "Metrics", once: "Callable[[], Verification]") -> None:
    """Verify, and record the result; a missing table only leaves the time as it is, which triggers an alert."""
    try:
        found = once()
    except OSError as error:
        say_error(f"haltline: audit verify: {error}")
        return
    metrics.gauge("audit_chain_intact").set(1 if found.ok else 0)
    metrics.gauge("audit_verified_rows").set(found.rows)
    metrics.gauge("audit_unsigned_rows").set(found.unsigned)
    metrics.gauge("audit_last_verification_timestamp_seconds").set(time.time())


def _verify(verifier: "Verifier", *, as_json: bool, on_one_line: bool) -> None:
    """Verify the table and print the result."""
    from rich.console import Console
    from rich.progress import Progress

    shown = Console(stderr=True)
    with Progress(console=shown, disable=not shown.is_terminal) as progress:
        task = progress.add_task("Rows", total=None)
        for (_, topic, partition), rows in verifier.run():
            progress.update(task, description=f"{topic}[{partition}]", advance=rows)
    found = verifier.found
    if as_json:
        print_json({"ok": found.ok, "verdict": found.verdict, **asdict(found)}, on_one_line=on_one_line)
    else:
        for problem in found.problems:
            say(f"WRONG  {problem}")
        if found.with_key:
            signed = f"{found.checkpoints} signatures checked"
        else:
            signed = f"{found.checkpoints or 'no'} signatures in it, none checked as no public key was given"
        say(
            f"{found.verdict.words}: {found.rows} rows of {found.partitions} partitions, {signed}; "
            f"{found.unsigned} rows not signed yet, {found.erased} erased"
        )
        if found.unfinished:
            say(f"{found.unfinished} erasures were interrupted: the next `haltline audit erase` completes them")
        if found.passed_over:
            say(f"{found.passed_over} rows are of topics that this release no longer has: only their chain is checked")


def witness(
    file: Annotated[
        Path,
        typer.Argument(help="The checkpoints are appended to this file, one JSON object a line. Keep it elsewhere."),
    ],
    *,
    table: AuditTable = DEFAULT_TABLE,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
) -> None:
    """Copy the newest signed checkpoint of each partition to a file elsewhere: it shows when an old table was restored.

    Example: haltline audit witness /mnt/other/witness.jsonl --table /srv/haltline/audit
    """
    from haltline.streams.audit.chain import CHECKPOINT
    from haltline.streams.audit.query import QueryFailed, open_query

    sql = (
        f"SELECT last_value(raw ORDER BY \"offset\") AS raw FROM audit WHERE kind = '{CHECKPOINT}' "
        'GROUP BY sink, "topic", "partition"'
    )
    try:
        rows = open_query(table, options_of(storage_option)).rows(sql)
        with file.open("ab") as out:
            out.writelines(row["raw"] + b"\n" for row in rows)
    except (QueryFailed, OSError) as error:
        fail(f"audit witness: {error}", Exit.USAGE)
    if as_json:
        print_json({"file": str(file), "checkpoints": len(rows)})
    else:
        say(f"{len(rows)} checkpoints added to {file}")


def compact(
    *,
    table: AuditTable = DEFAULT_TABLE,
    storage_option: StorageOption = None,
    vacuum_hours: Annotated[
        int | None, typer.Option(help="Delete files that no version of the last N hours needs (168 is usual).", min=0)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be deleted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Merge small files into larger ones; with --vacuum-hours, delete files that are not needed any more.

    Readers and sinks that started before that many hours ago lose their files: use 0 only when none is running.

    Example: haltline audit compact --table /srv/haltline/audit --vacuum-hours 168
    """
    care = _caretaker(table, storage_option, by="", reason="", signing_key=None, sink="audit")
    done = {} if dry_run else _run_query(care.compact)
    removed, added = done.get("numFilesRemoved", 0), done.get("numFilesAdded", 0)
    files = []
    if vacuum_hours is not None:
        files = _run_query(lambda: care.vacuum(kept_hours=vacuum_hours, dry_run=dry_run))
    if as_json:
        print_json({"dry_run": dry_run, "merged": removed, "into": added, "deleted": len(files)})
        return
    say(f"{removed} files merged into {added}")
    if vacuum_hours is not None:
        say(f"{len(files)} files {'would be ' if dry_run else ''}deleted")


_with_care = with_options(
    "care",
    dict,
    {"by": By, "reason": Why, "table": AuditTable, "storage_option": StorageOption, "signing_key": Key, "sink": Sink},
    {"table": DEFAULT_TABLE, "storage_option": None, "signing_key": None, "sink": "audit"},
)
"""A decorator: the command with the options of `_caretaker` in place of its parameter `care`."""


@_with_care
def retain(
    days: Annotated[int, typer.Argument(help="Days to keep, by the broker's time (UTC).", min=1)],
    *,
    care: Any,
    as_json: AsJson = False,
) -> None:
    """Delete older rows, and record that in a statement. The rest can still be verified.

    Example: haltline audit retain 400 --by ada --reason "retention policy 7" --signing-key audit-key.pem
    """
    caretaker = _caretaker(**care)
    rows = _run_query(lambda: caretaker.retain(days))
    if as_json:
        print_json({"days": days, "deleted": rows})
    else:
        say(f"{rows} rows deleted")


@_with_care
def erase(
    *,
    session: Annotated[str | None, typer.Option(help="All rows of this session.", metavar="ID")] = None,
    agent: Annotated[str | None, typer.Option(help="All rows of this agent.", metavar="ID")] = None,
    care: Any,
    as_json: AsJson = False,
) -> None:
    """Delete the content of all rows of one session or agent; digests and offsets stay, and the rest can be verified.

    `audit compact --vacuum-hours` deletes the files that held it. Kafka's own copy expires with its retention.

    Example: haltline audit erase --session night-7 --by ada --reason "erasure request 12" --signing-key audit-key.pem
    """
    if (session is None) == (agent is None):
        fail("audit erase: expected --session or --agent, got neither or both", Exit.USAGE)
    caretaker = _caretaker(**care)
    rows = _run_query(lambda: caretaker.erase(session_id=session, agent_id=agent))
    if not rows:
        fail(f"audit erase: expected rows of {session or agent!r}, got none", Exit.NO)
    if as_json:
        print_json({"session": session, "agent": agent, "erased": rows})
        return
    say(f"{rows} rows erased; run `haltline audit compact --vacuum-hours N` to delete their content from the disk too")


def _witnessed(file: Path) -> list[dict[str, Any]]:
    """The checkpoints in a file of `audit witness`; exits on an invalid line."""
    import msgspec
    import orjson

    fields = {"sink": str, "topic": str, "partition": int, "offset": int, "chain_hash": str}
    checkpoint = msgspec.defstruct("Checkpoint", [*fields.items()])
    kept: list[dict[str, Any]] = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            msgspec.json.decode(line, type=checkpoint)
        except msgspec.DecodeError as error:
            got = f"{line.decode(errors='replace'):.80}: {error}"
            fail(
                f"--witness: {file}, line {number}: expected a checkpoint ({', '.join(fields)}), got {got}", Exit.USAGE
            )
        kept.append(orjson.loads(line))
    return kept


def _caretaker(
    table: str, storage_option: list[str] | None, *, by: str, reason: str, signing_key: Path | None, sink: str
) -> "Caretaker":
    from haltline.schemas.keys import BadKey
    from haltline.streams.audit.maintenance import Caretaker
    from haltline.streams.audit.signing import load_signer

    try:
        signer = load_signer(signing_key) if signing_key is not None else None
    except (BadKey, OSError) as error:
        fail(f"--signing-key: {error}", Exit.USAGE)
    return Caretaker(table, by, reason, signer, sink, options_of(storage_option))


def _run_query(act: Any) -> Any:
    from deltalake.exceptions import DeltaError

    from haltline.streams.audit.query import QueryFailed

    try:
        return act()
    except (QueryFailed, DeltaError, OSError, ValueError) as error:
        fail(f"audit table: {error}", Exit.USAGE)


def register(audit: typer.Typer) -> None:
    """Adds the commands to the group `audit`."""
    for proof in (verify, keygen, witness):
        audit.command(rich_help_panel="Proof")(proof)
    for care in (compact, retain, erase):
        audit.command(rich_help_panel="Maintain")(care)
