"""Which commands need only what an agent installs. Loads nothing, so that a hook starts at once."""

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
"""What only the extra `processor` installs; an agent installs haltline without it."""

BESIDE_AGENTS = {
    "hook": "haltline.cli.agent.hook",
    "watch": "haltline.cli.agent.watch",
    "mcp-proxy": "haltline.cli.agent.mcp_proxy",
    "intake": "haltline.cli.services.intake",
    "import": "haltline.cli.operator.import_recordings",
}
"""Commands that need the base installation only, and the modules whose `main` they are."""
