"""The entry point of the command line: `haltline`, and `python -m haltline.streams`."""

import sys

PROCESSOR = frozenset(
    {"aiokafka", "arro3", "cramjam", "deltalake", "faust", "prometheus_client", "rich", "typer", "uvloop", "yaml"}
)
"""What only the extra `processor` installs; an agent installs haltline without it."""


def main() -> None:
    """Runs a command and ends the process with its exit code."""
    if sys.argv[1:2] == [
        "hook"
    ]:  # starts with every call of a tool, in an agent's own installation: nothing else is loaded
        from haltline.streams.cli import hook  # noqa: PLC0415

        sys.exit(hook.main(sys.argv[2:]))
    try:
        from haltline.streams.cli.app import app  # noqa: PLC0415  # a bare install must get this far

        app()
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in PROCESSOR:
            raise
        print(
            f"haltline: the command line needs {missing.name}, which is not installed. "
            "It comes with the processor: pip install 'haltline[processor]'",
            file=sys.stderr,
        )
        sys.exit(2)  # as every command that cannot work as it is set up


if __name__ == "__main__":
    main()
