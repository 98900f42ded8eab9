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
_CONSOLE = frozenset({"authlib", "fastapi", "httptools", "itsdangerous", "sqlalchemy", "starlette", "uvicorn"})


def needs(package: str) -> str | None:
    """What to tell a user without a package that an extra brings; None: no extra of a command brings it."""
    extra = "processor" if package in PROCESSOR else "console" if package in _CONSOLE else None
    if extra is None:
        return None
    return (
        f"this command needs {package}, which is not installed. "
        f"It comes with the {extra}: pip install 'haltline[{extra}]'"
    )


def missing_packages() -> list[str]:
    """Packages of the extra `processor` that cannot be imported here."""
    import sys
    from importlib.util import find_spec

    # No release of uvloop exists for Windows.
    expected = PROCESSOR - {"uvloop"} if sys.platform == "win32" else PROCESSOR
    return sorted(name for name in expected if name not in sys.modules and find_spec(name) is None)
