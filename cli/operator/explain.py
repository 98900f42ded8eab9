"""`haltline explain`: how one call is classified, and why."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from haltline.cli.common import AsJson, Exit, UsageErrors, fail, print_json, say


def explain(
    call: Annotated[str, typer.Argument(metavar="COMMAND", help="A command line; with --tool its arguments as JSON.")],
    *,
    tool: Annotated[str, typer.Option("--tool", metavar="NAME", help="The tool that is called.")] = "",
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy",
            metavar="FILE",
            help="The policy document (YAML), with its tools and its rule ask_first.",
            show_default="every default",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how a call is classified: what it destroys, overwrites, exposes, spends, sends or hands over, and why.

    Runs nothing and needs no Kafka.

    Example: haltline explain 'aws s3api put-bucket-acl --bucket sales --acl public-read'
    """
    import orjson

    from haltline.cli.policy_option import read_policy
    from haltline.detectors import build
    from haltline.detectors.features.explanation import explain as explained
    from haltline.detectors.session.ask_first import AskFirst
    from haltline.schemas.decisions import Mode

    args: object = {"command": call}
    if tool:
        try:
            args = orjson.loads(call)
        except orjson.JSONDecodeError as error:
            fail(f"arguments: expected a JSON object, got {call[:80]!r}: {error}", Exit.USAGE)
    if not isinstance(args, dict):
        fail(f"arguments: expected a JSON object, got {type(args).__name__}", Exit.USAGE)
    given = read_policy(policy)
    rule = given.rules.get(AskFirst.id)
    asks = next(iter(build({AskFirst.id: rule}, {AskFirst.id: AskFirst})), None) if rule else None
    asks_about = asks.asks_about if isinstance(asks, AskFirst) and rule and rule.mode is Mode.ENFORCE else None
    with UsageErrors(ValueError):
        found = explained(tool or "bash", args, given, asks_about)
    if as_json:
        print_json([asdict(found)])
        return
    read = f", read as {found.reading}" if found.reading else ""
    say(f"tool {found.tool}: effect {found.effect}{read}")
    if not found.acts:
        say("no irreversible act")
    for act in found.acts:
        again = " (another act undoes it)" if act.reversible else ""
        say("")
        say(f"{act.effect}: {act.verb} {act.target}, {act.badness}{again}")
        say(f"  why: {act.why}")
        say(f"  consequence: {act.level}")
        for line in act.follows.splitlines():
            say(f"    {line}")
