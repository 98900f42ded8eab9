"""What comes down a pipe, where that can be known from the command line.

Misses: filters between the source and its reader (`find | grep | xargs`): then what comes is not known.
"""

from haltline.detectors.commands.finder import find_results
from haltline.detectors.commands.invocation import STDIN, Invocation
from haltline.detectors.commands.options import parse


def output(invocation: Invocation) -> str | None:
    """What a program puts out, where that is written in the command line: `echo`, `printf`, `cat <<EOF`."""
    arguments = invocation.argv[1:]
    if any(operator in (">", ">>", ">|", "&>") for operator, _ in invocation.writes):
        return None
    if invocation.name == "echo":
        while arguments and arguments[0] in ("-n", "-e", "-E", "-ne", "-en"):
            arguments = arguments[1:]
        return " ".join(arguments)
    if invocation.name == "printf":
        arguments = arguments[arguments[:1] == ("--",) :]
        shown = arguments[1:] if len(arguments) > 1 and "%" in arguments[0] else arguments
        return "\n".join(shown).replace("\\n", "\n")
    if invocation.name in ("cat", "tee", "envsubst") and invocation.stdin is not None:
        operands = [argument for argument in arguments if argument == "-" or not argument.startswith("-")]
        return invocation.stdin if invocation.name == "tee" or operands in ([], ["-"]) else None
    if invocation.name == "pwd":
        return invocation.cwd or "."
    if invocation.name == "mktemp":
        return "/tmp/tmp.XXXXXXXXXX"
    return None


def items(upstream: Invocation | None, stdin: str | None) -> tuple[str, ...]:
    """The words that `xargs` or `read` would get; one stand-in when they are not known."""
    if stdin is not None:
        return tuple(stdin.split()) or (STDIN,)
    if upstream is not None and upstream.name == "find":
        return find_results(upstream)
    if upstream is not None and upstream.name == "ls":
        folders = parse(upstream.argv[1:]).operands or (".",)
        return tuple(folder if "*" in folder else f"{folder}/*" for folder in folders)
    return (STDIN,)
