"""The entry point of the command line: `haltline`, and `python -m haltline.cli`."""

import gc
import sys

import haltline
from haltline.cli import settings_file


def main() -> None:
    """Run a command and exit with its exit code."""
    try:
        before_agent = sys.argv[1 : sys.argv.index("--") if "--" in sys.argv else None]
        is_help = not {"-h", "--help"}.isdisjoint(before_agent)
        command = "".join(sys.argv[1:2])
        if command == "agent" and any(word.partition("=")[0] == "--listen" for word in before_agent):
            command = "intake"  # a service of other machines, with its section of the file
        # The others read the file themselves: if it is invalid, only destructive calls are refused.
        reads_itself = {"hook", "agent", "mcp-proxy"} | ({"watch"} if "--all" not in before_agent else set())
        if not is_help and command not in reads_itself:
            settings_file.apply(command)
    except settings_file.BadSettings as error:
        print(f"haltline: {error}", file=sys.stderr)
        sys.exit(2)
    if sys.argv[1:2] == ["hook"]:  # it starts with every call of a tool: nothing else is loaded
        from haltline.cli.agent.hook import main as hook

        sys.exit(hook(sys.argv[2:]))
    if sys.argv[1:] == ["--version"]:
        print(f"haltline {haltline.__version__}")
        return
    # What is imported stays, and records have no cycles: garbage is a fifth of a start's work, and of a sink's.
    gc.set_threshold(100_000, 50, 50)
    from haltline.cli.app import app

    app()


if __name__ == "__main__":
    main()
