"""The known output of programs in a pipe.

Misses: filters between the source and its reader (`find | grep | xargs`): the output is unknown.
"""

from haltline.detectors.commands.shell.decoding import filtered, printed, unescaped
from haltline.detectors.commands.shell.finder import find_results
from haltline.detectors.commands.shell.invocation import STDIN, Invocation
from haltline.detectors.commands.shell.options import leading, parse

_LISTS = frozenset(("ls", "get-childitem", "gci", "dir", "get-item", "gi"))


def output(invocation: Invocation) -> str | None:
    """Return the output of a program, if the command line contains it: `echo`, `printf`, `cat <<EOF`; else None."""
    arguments = invocation.argv[1:]
    if any(operator in (">", ">>", ">|", "&>") for operator, _ in invocation.writes):
        return None
    if invocation.name == "echo":
        escapes = False
        while arguments and arguments[0] in ("-n", "-e", "-E", "-ne", "-en"):
            escapes = escapes or "e" in arguments[0]
            arguments = arguments[1:]
        return unescaped(" ".join(arguments)) if escapes else " ".join(arguments)
    if invocation.name == "printf":
        arguments = arguments[arguments[:1] == ("--",) :]
        return printed(arguments) if arguments else ""
    if invocation.name == "cat" and arguments == ("/dev/null",):
        return ""
    if invocation.name in ("cat", "tee", "envsubst") and invocation.stdin is not None:
        operands = [argument for argument in arguments if argument == "-" or not argument.startswith("-")]
        return invocation.stdin if invocation.name == "tee" or operands in ([], ["-"]) else None
    if invocation.name in (":", "true"):
        return ""
    if invocation.name in ("which", "whereis") or (invocation.name in ("command", "type") and len(arguments) > 1):
        return arguments[-1] if arguments else None  # the program's path: its name runs it too
    if invocation.name == "pwd":
        return invocation.cwd or "."
    if invocation.name == "mktemp":
        return "/tmp/tmp.XXXXXXXXXX"
    return filtered(invocation)


def items(upstream: Invocation | None, stdin: str | None, *, by_line: bool = False) -> tuple[str, ...]:
    """Return the words, or lines, that `xargs` or `read` would get; one stand-in if they are unknown."""
    if stdin is not None:
        return tuple(stdin.splitlines() if by_line else stdin.split()) or (STDIN,)
    if upstream is not None and upstream.name == "find":
        return find_results(upstream)
    if upstream is not None and upstream.name == "kubectl" and "get" in upstream.argv:
        words = parse(
            upstream.argv[1:], frozenset(("-o", "--output", "-n", "--namespace", "-l", "--selector"))
        ).operands
        return words[1:] if len(words) < 3 else tuple(f"{words[1]}/{name}" for name in words[2:])
    if upstream is not None and upstream.name.lower() in _LISTS:
        folders = leading(upstream.name, upstream.argv[1:]) or (".",)
        return tuple(folder if "*" in folder else f"{folder}/*" for folder in folders)
    return (STDIN,)
