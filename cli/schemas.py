"""`haltline schemas`: the JSON Schemas of records, for producers in other languages."""

from pathlib import Path
from typing import Annotated

import typer

from haltline.cli.common import print_json, say


def schemas(
    out: Annotated[
        Path | None, typer.Option(help="Write one file for each topic into this folder.", metavar="DIR")
    ] = None,
) -> None:
    """Print the JSON Schema of every topic's records, of policy documents and of the local service's messages.

    An editor completes a policy that begins with: # yaml-language-server: $schema=build/schemas/policies.schema.json

    Example: haltline schemas --out build/schemas
    """
    import orjson

    from haltline.cli.policy_option import read_plugins
    from haltline.schemas import wire
    from haltline.schemas.agent_service import json_schema
    from haltline.streams.policy.json_schema import policy_schema

    by_topic = wire.json_schemas() | {"policies": policy_schema(read_plugins()), "agent-service": json_schema()}
    if out is None:
        print_json(by_topic)
        return
    out.mkdir(parents=True, exist_ok=True)
    for topic, schema in by_topic.items():
        (out / f"{topic}.schema.json").write_bytes(orjson.dumps(schema, option=orjson.OPT_INDENT_2) + b"\n")
    say(f"{len(by_topic)} schemas written to {out}")
