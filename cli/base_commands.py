"""The packages of the extras. Imports nothing, so that a hook starts quickly."""

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
_EXTRAS = {
    "console": "console",
    "intake": "intake",
    "learn": "processor,learn",
    "mcp-proxy": "mcp",
    "notify": "notify",
}
"""The extra of a command that has one of its own."""


def needs(package: str, command: str) -> str | None:
    """What to tell a user of a command without a package that an extra brings; None: no extra brings it."""
    extra = "processor" if package in PROCESSOR else _EXTRAS.get(command)
    if extra is None or package == "haltline":
        return None
    return f"{command} needs {package}, which is not installed: pip install 'haltline[{extra}]'"


def missing_packages() -> list[str]:
    """Packages of the extra `processor` that cannot be imported here."""
    import sys
    from importlib.util import find_spec

    # No release of uvloop exists for Windows.
    expected = PROCESSOR - {"uvloop"} if sys.platform == "win32" else PROCESSOR
    return sorted(name for name in expected if name not in sys.modules and find_spec(name) is None)
