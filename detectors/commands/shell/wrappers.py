"""Programs that run another program given in their arguments.

Misses: `npm run` and every script whose text is elsewhere; programs started by an alias. `runs` reads programs with a
whole command line in one argument.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from haltline.detectors.commands.model import listed
from haltline.detectors.commands.names import is_production
from haltline.detectors.commands.rows import cells_of, words_of
from haltline.detectors.commands.shell.options import OPTIONS, parse
from haltline.schemas import expressions as re

ASSIGNMENT = re.compile(r"\A[A-Za-z_]\w*\+?=", re.ASCII)


@dataclass(frozen=True, slots=True)
class Prefix:
    """The arguments between a wrapper's name and the program that it runs."""

    takes_value: frozenset[str] = frozenset()
    """Options whose value is the next word."""

    operands: int = 0
    """The number of the wrapper's own operands."""

    remote: bool = False
    """The program runs on another file system."""

    after_dashes: bool = False
    """The program follows `--`; there is none without it."""


def _read() -> Iterator[tuple[tuple[str, ...], Prefix]]:
    for cells in cells_of("wrappers"):
        names, options, more = map(str.split, cells)
        operands = next((int(word) for word in more if word.isdigit()), 0)
        prefix = Prefix(frozenset(options), operands, "remote" in more, "dashes" in more)
        for name in " ".join(names).split(","):
            yield tuple(name.split()), prefix


SUBCOMMANDS: Mapping[tuple[str, ...], Prefix] = dict(_read())
PREFIXES: Mapping[str, Prefix] = {path[0]: prefix for path, prefix in SUBCOMMANDS.items() if len(path) == 1}

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    name: tuple(same.split()) for names, same in cells_of("synonyms") for name in names.split()
}
"""Other names of programs with the same behaviour."""


# `yarn prisma ...` runs the installed program of that name.
_SCRIPT_RUNNERS = frozenset(("yarn", "pnpm"))
_INSTALLED_PROGRAMS = words_of("programs that yarn runs")

_VERSION = re.compile(r"(?<![\d.])[\d.]+$")
VERSIONED = frozenset(("python", "pypy", "ruby", "perl", "php", "node", "pip", "sqlite", "psql"))

SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "rbash"))

_SHELL_VALUE_OPTION = re.compile(r"[-+][a-zA-Z]*[oO]|--rcfile|--init-file")
_SHELL_SCRIPT = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*|--command")
_SSH_VALUE_OPTIONS = frozenset(f"-{letter}" for letter in "BbcDEeFIiJLlmOopQRSWw")
_XARGS_VALUE_OPTIONS = frozenset(listed("-I -n -P -L -d -E -s -a --max-args --max-procs --delimiter --arg-file"))
_PARALLEL_VALUE_OPTIONS = frozenset(("-j", "--jobs", "-I", "--delay", "--timeout", "-a", "--joblog", "--colsep"))


def program(argument: str) -> str:
    """Return the program's plain name: `/usr/bin/python3.11` is python."""
    name = argument.rpartition("/")[2].removesuffix(".exe")
    if "@" in name[1:]:  # `npx rimraf@5`
        name = name[: name.index("@", 1)]
    bare = _VERSION.sub("", name)
    return bare if bare in VERSIONED else name


def strip(argv: tuple[str, ...], prefix: Prefix) -> tuple[str, ...]:
    """Return the program after a wrapper; `argv` begins after the wrapper's name (and subcommand)."""
    if prefix.after_dashes:
        return argv[argv.index("--") + 1 :] if "--" in argv else ()
    at = 0
    operands = prefix.operands
    while at < len(argv):
        word = argv[at]
        at += 1
        if word == "--":
            break
        if word in prefix.takes_value:
            at += 1
        elif _is_option_or_assignment(word, first=operands == prefix.operands):
            continue
        elif operands == 0:
            at -= 1
            break
        else:
            operands -= 1
            if operands == 0 and argv[at : at + 1] != ("--",):
                break
    return argv[at:]


def _is_option_or_assignment(word: str, *, first: bool) -> bool:
    return (len(word) > 1 and word.startswith("-")) or (first and ASSIGNMENT.match(word) is not None)


def environment(argv: tuple[str, ...], assigned: tuple[str, ...]) -> tuple[str, ...]:
    """Return the variables of the program behind `env` or `sudo`; for another user only those that say production."""
    given = tuple(word for word in argv[1:] if ASSIGNMENT.match(word))
    if argv[0] != "env":
        keeps = any(word in ("-E", "--preserve-env") or word.startswith("--preserve-env=") for word in argv)
        return (*(assigned if keeps else (one for one in assigned if is_production(one.partition("=")[2]))), *given)
    options = parse(argv[1:], PREFIXES["env"].takes_value)
    gone = {one.partition("=")[0] for one in assigned} if options.has("-i", "--ignore-environment", "-") else ()
    return (*assigned, *(f"{name}=" for name in (*gone, *options.values("-u", "--unset"))), *given)


def subcommand(argv: tuple[str, ...]) -> tuple[Prefix, tuple[str, ...]] | None:
    """Return the prefix of `docker -H x exec ...` and similar commands, and the arguments after the subcommand."""
    name = argv[0]
    value_options = OPTIONS.get(name, frozenset())
    path: tuple[str, ...] = (name,)
    if name in _SCRIPT_RUNNERS and argv[1:2] and argv[1] in _INSTALLED_PROGRAMS:
        return Prefix(), argv[1:]
    at = 1
    while at < len(argv) and len(path) < 4:
        word = argv[at]
        at += 1
        if word.startswith("-"):
            at += word in value_options
            continue
        path += (word,)
        if len(path) == 2:
            value_options |= OPTIONS.get(f"{name} {word}", frozenset())
        prefix = SUBCOMMANDS.get(path)
        if prefix is not None:
            return prefix, argv[at:]
    return None


def shell_script(argv: tuple[str, ...]) -> tuple[str | None, tuple[str, ...], bool]:
    """Return the text of `bash -lc TEXT args`, its arguments, and whether the shell reads stdin instead."""
    at = 1
    while at < len(argv):
        word = argv[at]
        at += 1
        if _SHELL_SCRIPT.fullmatch(word):
            while at < len(argv) and argv[at].startswith(("-", "+")) and len(argv[at]) > 1:
                at += 2 if _SHELL_VALUE_OPTION.fullmatch(argv[at]) else 1
            return (argv[at] if at < len(argv) else None), argv[at + 1 :], False
        if word in ("-s", "-"):
            return None, argv[at:], True
        if _SHELL_VALUE_OPTION.fullmatch(word):
            at += 1
        elif not word.startswith(("-", "+")):
            return None, argv[at:], word == "/dev/stdin"
    return None, (), True


def ssh_script(argv: tuple[str, ...]) -> tuple[str | None, bool]:
    """Return the text that `ssh host words` runs, and whether a remote shell reads stdin instead."""
    rest = _after_options(argv[1:], _SSH_VALUE_OPTIONS)
    if len(rest) > 1:
        return " ".join(_after_options(rest[1:], _SSH_VALUE_OPTIONS)), False
    return None, bool(rest)


_VALUED_OF_EXEC = frozenset(
    listed("-c --container -n --namespace --context --kubeconfig -p --project-name -f -H --host")
)


def ssh_host(argv: tuple[str, ...]) -> str:
    """Return the host of `ssh user@host words`; empty for this one."""
    host = "".join(_after_options(argv[1:], _SSH_VALUE_OPTIONS)[:1]).rpartition("@")[2]
    return "" if host in ("localhost", "127.0.0.1", "::1") else host


def machine(argv: tuple[str, ...]) -> str:
    """Return the container, pod or host of the words before a remote program; empty if it has files of this one.

    `name@namespace@context`, as far as the words name them; the service of a project is `name@project`.
    """
    if argv[0] in ("chroot", "nsenter", "proot") or (argv[0] == "docker" and "run" in argv):
        return ""
    at = next((at for at, word in enumerate(argv) if word in ("exec", "run", "debug")), 0)
    before, words = parse(argv[1:at], _VALUED_OF_EXEC), argv[at + 1 :]
    options = parse(words, _VALUED_OF_EXEC)
    first = options.operands[:1] if argv[0] == "kubectl" else ()
    name = next(iter((*first, *(word for word in reversed(words) if word[:1] != "-"))), "")
    space = before.value("-p", "--project-name") or "." if "compose" in argv[:at] else ""
    if argv[0] == "kubectl":
        space = before.value("-n", "--namespace") or options.value("-n", "--namespace") or ""
    context = before.value("--context", "-H", "--host") or options.value("--context") or ""
    return f"{name}@{space}@{context}".rstrip("@") if name else ""


def xargs_command(argv: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Return the program with its words of `xargs -I {} program words`, and the placeholder, or an empty text."""
    inner = _after_options(argv[1:], _XARGS_VALUE_OPTIONS)
    options = parse(argv[1 : len(argv) - len(inner)], _XARGS_VALUE_OPTIONS)
    return inner, options.value("-I") or ("{}" if options.has("-i") else "")


def parallel_command(argv: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return the program with its words of `parallel program words ::: items`, and the items, or None if unknown."""
    inner = _after_options(argv[1:], _PARALLEL_VALUE_OPTIONS)
    if ":::" not in inner:
        return inner, None
    at = inner.index(":::")
    return inner[:at], inner[at + 1 :]


def _after_options(argv: tuple[str, ...], takes_value: frozenset[str]) -> tuple[str, ...]:
    at = 0
    while at < len(argv) and len(argv[at]) > 1 and argv[at].startswith("-"):
        if argv[at] == "--":
            return argv[at + 1 :]
        at += 2 if argv[at] in takes_value else 1
    return argv[at:]
