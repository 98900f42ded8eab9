"""The commands that need only an agent's installation. Imports nothing, so that a hook starts quickly."""

PROCESSOR = frozenset(
    {
        "aiokafka",
        "arro3",
        "cramjam",
        "cryptography",
        "deltalake",
        "faust",
        "uvloop",
    }
)
"""Packages of the extra `processor`, which an agent's installation does not have."""

BESIDE_AGENTS = {
    "hook": "haltline.cli.agent.hook",
    "watch": "haltline.cli.agent.watch",
    "mcp-proxy": "haltline.cli.agent.mcp_proxy",
    "intake": "haltline.cli.services.intake",
    "import": "haltline.cli.operator.import_recordings",
}
"""Commands that need the base installation only, with the module of their `main`."""
