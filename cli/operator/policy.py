"""`haltline policy`: checks, shows and publishes documents."""

import time
from pathlib import Path
from typing import Annotated

import typer

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, By, Exit, Reason, fail, print_json, say, say_error
from haltline.cli.policy_option import read_policy

Document = Annotated[Path, typer.Argument(help="The policy document, YAML or JSON.", metavar="FILE")]


def check(file: Document, as_json: AsJson = False) -> None:
    """Check a document as a worker would. Exit 2 when it cannot be used, 1 when a part of it has no effect.

    Without effect are parts that this release no longer has, and overrides that loosen without an exemption.

    Example: haltline policy check policy.yaml
    """
    from haltline.streams.engine.plugins import installed
    from haltline.streams.policy.loader import in_vain

    policy = read_policy(file, option="")
    vain = in_vain(policy, installed())
    if as_json:
        print_json({"name": policy.name, "version": policy.version, "in_vain": vain})
    else:
        say(f"{file}: policy {policy.name}, version {policy.version}, can be used")
    for line in vain:
        say_error(f"{file}: {line}")
    if vain:
        raise typer.Exit(Exit.NO)


@with_cluster()
def publish(
    file: Document,
    *,
    by: By,
    reason: Reason,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Put a document in force in every worker that follows its name, without a restart.

    Presets are expanded. A document without a version gets the next one; a version that is not above the published one
    is refused.

    Example: haltline policy publish policy.yaml --by ada --reason 'clean-up of staging is over'
    """
    from haltline.streams.engine.plugins import installed
    from haltline.streams.policy import publish as publishing
    from haltline.streams.policy.loader import BadPolicy, in_vain
    from haltline.streams.policy.source import DEFAULT_NAME

    policy = read_policy(file, option="")
    topic = at.topics.policies
    try:
        policy, place = publishing.publish(
            policy,
            bootstrap=at.bootstrap,
            topic=topic,
            by=by,
            reason=reason,
            time_ms=time.time_ns() // 1_000_000,
            client=at.client_config,
        )
    except BadPolicy as error:
        fail(f"{file}: {error}", Exit.USAGE)
    if as_json:
        print_json(
            {"name": policy.name, "version": policy.version, "partition": place.partition, "offset": place.offset}
        )
    else:
        say(f"policy {policy.name}, version {policy.version}, is at {topic} {place.partition}:{place.offset}")
        if policy.name != DEFAULT_NAME:
            say(f"in force in workers that run with --policy-name {policy.name}")
    for line in in_vain(policy, installed()):
        say_error(f"{file}: {line}")


@with_cluster()
def show(
    name: Annotated[str, typer.Argument(help="The policy's name. Default: list all.", metavar="NAME")] = "",
    *,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Print a published document, or the names of all with version, who and why. Exit 1 when there is none.

    Example: haltline policy show default
    """
    import orjson

    from haltline.schemas.record import rfc3339
    from haltline.streams.policy.source import current

    documents = current(at.bootstrap, at.topics.policies, client=at.client_config)
    if name:
        if name not in documents:
            fail(f"policy {name}: expected one of {sorted(documents)}, which are published", Exit.NO)
        typer.echo(orjson.dumps(orjson.loads(documents[name].value or b""), option=orjson.OPT_INDENT_2).decode())
        return
    if as_json:
        print_json([orjson.loads(record.value or b"") for _, record in sorted(documents.items())])
        if not documents:
            raise typer.Exit(Exit.NO)
        return
    for each, record in sorted(documents.items()):
        document = orjson.loads(record.value or b"")
        published = document.get("published", {})
        by, why = published.get("by", "?"), published.get("reason", "?")
        say(f"{each}, version {document.get('version', '?')}, by {by} at {rfc3339(record.timestamp)}: {why}")
    if not documents:
        say("no policy was published: every worker without a file has the defaults")
        raise typer.Exit(Exit.NO)


def register(app: typer.Typer) -> None:
    """Adds the group."""
    group = typer.Typer(help="Check, show and publish policy documents.", no_args_is_help=True)
    for function in (check, publish, show):
        group.command()(function)
    app.add_typer(group, name="policy")
