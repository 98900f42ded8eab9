"""`haltline policy`: checks, shows and publishes documents."""

import time
from contextlib import suppress
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import AsJson, By, Exit, PolicyName, Reason, fail, print_json, say, say_error
from haltline.cli.policy_option import read_policy

if TYPE_CHECKING:
    from haltline.streams.policy.mutes import Change

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


Muted = Annotated[str, typer.Argument(help="The rule.", metavar="RULE")]
OfAgent = Annotated[str, typer.Option(help="The agent's id.", metavar="AGENT")]


@with_cluster()
def mute(
    rule: Muted,
    *,
    agent: OfAgent,
    until: Annotated[
        str,
        typer.Option(help="A time (2026-12-24T08:00:00Z), by the sessions' clock, or how long (7d).", metavar="TIME"),
    ],
    policy_name: PolicyName = "default",
    by: By,
    reason: Reason,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """Mute a rule for an agent until a time: its findings are recorded as in shadow, and do nothing.

    The policy gets its next version with an exemption, which later documents keep until it ends. Budgets, and what
    operators stop, are never muted. Workers with --policy FILE do not follow it.

    Example: haltline policy mute cycle --agent nightly --until 7d --by ada --reason 'is being rewritten'
    """
    from haltline.schemas.policy import Exemption
    from haltline.schemas.record import rfc3339
    from haltline.streams.engine.plugins import installed
    from haltline.streams.policy.mutes import muted

    now_ms = time.time_ns() // 1_000_000
    until_ms = _moment_after(until, now_ms)
    exemption = Exemption(by=by, reason=reason, expires=until_ms)
    change = muted(rule, agent, exemption, now_ms=now_ms, plugins=installed())
    what = f"{rule} is muted for agent {agent} until {rfc3339(until_ms)}"
    _publish_changed(change, what, policy_name, by=by, reason=reason, at=at, as_json=as_json)


@with_cluster()
def unmute(
    rule: Muted,
    *,
    agent: OfAgent,
    policy_name: PolicyName = "default",
    by: By,
    reason: Reason,
    at: Cluster,
    as_json: AsJson = False,
) -> None:
    """End a mute.

    Example: haltline policy unmute cycle --agent nightly --by ada --reason 'is rewritten'
    """
    from haltline.streams.policy.mutes import unmuted

    what = f"{rule} is no longer muted for agent {agent}"
    _publish_changed(unmuted(rule, agent), what, policy_name, by=by, reason=reason, at=at, as_json=as_json)


def _publish_changed(
    change: "Change", what: str, name: str, *, by: str, reason: str, at: Cluster, as_json: bool
) -> None:
    from haltline.streams.engine.plugins import installed
    from haltline.streams.policy.loader import BadPolicy
    from haltline.streams.policy.mutes import mutes_of, publish_changed

    now_ms = time.time_ns() // 1_000_000
    try:
        policy, _ = publish_changed(
            change,
            name,
            bootstrap=at.bootstrap,
            topic=at.topics.policies,
            by=by,
            reason=reason,
            time_ms=now_ms,
            plugins=installed(),
            client=at.client_config,
        )
    except BadPolicy as error:
        fail(error, Exit.USAGE)
    if as_json:
        mutes = [asdict(one) for one in mutes_of(policy, now_ms)]
        print_json({"name": policy.name, "version": policy.version, "mutes": mutes})
    else:
        say(f"policy {policy.name}, version {policy.version}: {what}")


def _moment_after(text: str, now_ms: int) -> int:
    """Return the epoch milliseconds of a time, or of a length of time from now on."""
    from haltline.streams.notify.lengths import length_of_time
    from haltline.streams.replay.time_range import BadMoment, parse_moment

    with suppress(ValueError):
        return now_ms + length_of_time(text) // timedelta(milliseconds=1)
    try:
        return parse_moment(text, now_ms) or now_ms
    except BadMoment:
        fail(f"--until: expected a time (2026-12-24T08:00:00Z) or how long (7d), got {text!r}", Exit.USAGE)


def register(app: typer.Typer) -> None:
    """Adds the group."""
    group = typer.Typer(help="Check, show and publish policy documents, and mute rules.", no_args_is_help=True)
    for function in (check, publish, show, mute, unmute):
        group.command()(function)
    app.add_typer(group, name="policy")
