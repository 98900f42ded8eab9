"""Programs that run other programs: what stands in front of the program that counts.

Misses: `npm run` and every script whose text is elsewhere; programs started by an alias. What carries a whole command
line is in `carriers`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from haltline.detectors.commands.options import parse

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)


@dataclass(frozen=True, slots=True)
class Prefix:
    """What lies between a wrapper's name and the program it runs."""

    takes_value: frozenset[str] = frozenset()
    """Options whose value is the next word."""

    operands: int = 0
    """How many operands of its own it has."""

    remote: bool = False
    """The program runs in another file system."""

    after_dashes: bool = False
    """The program is what follows `--`, and nothing without it."""


def _prefix(options: str = "", operands: int = 0, *, remote: bool = False, after_dashes: bool = False) -> Prefix:
    return Prefix(frozenset(options.split()), operands, remote, after_dashes)


PREFIXES: Mapping[str, Prefix] = {
    "sudo": _prefix("-u --user -g --group -h --host -p --prompt -C -D --chdir -r -t -T -U"),
    "doas": _prefix("-u -C"),
    "env": _prefix("-u --unset -C --chdir"),
    "nohup": _prefix(),
    "setsid": _prefix(),
    "time": _prefix("-f --format -o --output"),
    "timeout": _prefix("-s --signal -k --kill-after", 1),
    "gtimeout": _prefix("-s --signal -k --kill-after", 1),
    "nice": _prefix("-n --adjustment"),
    "ionice": _prefix("-c --class -n --classdata"),
    "stdbuf": _prefix("-i -o -e --input --output --error"),
    "exec": _prefix("-a"),
    "command": _prefix(),
    "builtin": _prefix(),
    "busybox": _prefix(),
    "unbuffer": _prefix(),
    "caffeinate": _prefix("-t -w"),
    "chroot": _prefix("", 1, remote=True),
    "flock": _prefix("-w --wait --timeout -E", 1),
    "strace": _prefix("-e -o -p -s -u -P"),
    "nsenter": _prefix("-t --target", remote=True),
    "unshare": _prefix(),
    "systemd-run": _prefix("-p --property -u --unit --slice -E --setenv --description --on-calendar --on-active"),
    "proot": _prefix("-r -b -w", remote=True),
    "sshpass": _prefix("-p -f -e -P -d"),
    "taskset": _prefix("", 1),
    "chrt": _prefix("-T -P -D -p", 1),
    "firejail": _prefix(),
    "fakeroot": _prefix(),
    "runuser": _prefix("-u --user -g --group -G -s --shell"),
    "gosu": _prefix("", 1),
    "su-exec": _prefix("", 1),
    "setarch": _prefix("", 1),
    "prlimit": _prefix(),
    "cgexec": _prefix("-g"),
    "numactl": _prefix(),
    "perf-stat": _prefix(),
    "valgrind": _prefix(),
    "parallel-ssh": _prefix("-h -H -l", remote=True),
    "pdsh": _prefix("-w -l -f", remote=True),
    "clush": _prefix("-w -g -f", remote=True),
    "mosh": _prefix("", 1, remote=True),
    "chronic": _prefix(),
    "catchsegv": _prefix(),
    "coproc": _prefix(),
    "faketime": _prefix("-f", 1),
    "xvfb-run": _prefix("-e -f -n -s -p -w"),
    "dotenv": _prefix("-f --file -e", after_dashes=False),
    "npx": _prefix("-p --package"),
    "bunx": _prefix(),
    "uvx": _prefix("--from --with -p --python"),
}

SUBCOMMANDS: Mapping[tuple[str, ...], Prefix] = {
    ("uv", "run"): _prefix("--with --python -p --project --directory --extra --group --env-file --package"),
    ("poetry", "run"): _prefix(),
    ("pipenv", "run"): _prefix(),
    ("pdm", "run"): _prefix(),
    ("hatch", "run"): _prefix(),
    ("rye", "run"): _prefix(),
    ("conda", "run"): _prefix("-n --name -p --prefix --cwd"),
    ("bundle", "exec"): _prefix(),
    ("pnpm", "exec"): _prefix(),
    ("pnpm", "dlx"): _prefix(),
    ("yarn", "dlx"): _prefix(),
    ("yarn", "run"): _prefix(),
    ("npm", "exec"): _prefix("-p --package -w --workspace"),
    ("npm", "x"): _prefix("-p --package -w --workspace"),
    ("direnv", "exec"): _prefix("", 1),
    ("aws-vault", "exec"): _prefix("-d --duration", 1),
    ("op", "run"): _prefix("--env-file", after_dashes=True),
    ("doppler", "run"): _prefix("-p -c --project --config", after_dashes=True),
    ("railway", "run"): _prefix("-s -e --service --environment"),
    ("heroku", "run"): _prefix("-a --app -r --remote -s --size", remote=True),
    ("docker", "exec"): _prefix("-u --user -w --workdir -e --env --env-file --detach-keys", 1, remote=True),
    ("docker", "run"): _prefix(
        "-u --user -w --workdir -e --env --env-file --name -v --volume --mount -p --publish --network --net -h "
        "--hostname --entrypoint -m --memory --cpus --gpus --platform -l --label --add-host --device --ipc --pull "
        "--restart --shm-size --tmpfs --ulimit --user --userns --volumes-from --log-driver --cidfile --pid",
        1,
        remote=True,
    ),
    ("docker", "compose", "exec"): _prefix("-u --user -w --workdir -e --env --index", 1, remote=True),
    ("docker", "compose", "run"): _prefix(
        "-u --user -w --workdir -e --env --name -v --volume -p --entrypoint", 1, remote=True
    ),
    ("kubectl", "exec"): _prefix(remote=True, after_dashes=True),
    ("kubectl", "run"): _prefix(remote=True, after_dashes=True),
    ("kubectl", "debug"): _prefix(remote=True, after_dashes=True),
    ("perf", "stat"): _prefix("-e -r -o"),
    ("just", "--command"): _prefix(),
    ("lxc", "exec"): _prefix("", 1, remote=True),
    ("multipass", "exec"): _prefix("", 1, remote=True),
}  # fmt: skip

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "podman": ("docker",),
    "nerdctl": ("docker",),
    "docker-compose": ("docker", "compose"),
    "podman-compose": ("docker", "compose"),
    "oc": ("kubectl",),
    "k": ("kubectl",),
    "tofu": ("terraform",),
    "terragrunt": ("terraform",),
    "gsudo": ("sudo",),
    "mariadb": ("mysql",),
    "mongosh": ("mongo",),
    "valkey-cli": ("redis-cli",),
    "mariadb-admin": ("mysqladmin",),
    "bundler": ("bundle",),
}
"""Programs that are called like others and do the same."""

GLOBAL_OPTIONS: Mapping[str, frozenset[str]] = {
    "docker": frozenset((
        "-H", "--host", "--context", "-c", "--config", "-l", "--log-level", "-f", "--file", "-p", "--project-name",
        "--profile", "--env-file", "--project-directory",
    )),
    "kubectl": frozenset((
        "-n", "--namespace", "--context", "--cluster", "--user", "--kubeconfig", "-s", "--server", "--token", "--as",
        "--as-group", "--request-timeout", "-v",
    )),
}  # fmt: skip
"""Options with a value between a program and its subcommand."""

# `yarn prisma ...` runs the installed program of that name.
_SCRIPT_RUNNERS = frozenset(("yarn", "pnpm"))
_INSTALLED_PROGRAMS = frozenset(("prisma", "rimraf", "sequelize", "sequelize-cli", "typeorm", "del-cli", "wrangler"))

_VERSION = re.compile(r"[\d.]+$")
_VERSIONED = frozenset(("python", "pypy", "ruby", "perl", "php", "node", "pip", "sqlite", "psql"))

SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "rbash"))

_SHELL_VALUE_OPTION = re.compile(r"[-+][a-zA-Z]*[oO]|--rcfile|--init-file")
_SHELL_SCRIPT = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*|--command")
_SSH_VALUE_OPTIONS = frozenset(f"-{letter}" for letter in "BbcDEeFIiJLlmOopQRSWw")
_XARGS_VALUE_OPTIONS = frozenset((
    "-I", "-n", "-P", "-L", "-d", "-E", "-s", "-a", "--max-args", "--max-procs", "--delimiter", "--arg-file",
))  # fmt: skip
_PARALLEL_VALUE_OPTIONS = frozenset(("-j", "--jobs", "-I", "--delay", "--timeout", "-a", "--joblog", "--colsep"))


def program(argument: str) -> str:
    """`/usr/bin/python3.11` is python."""
    name = argument.rpartition("/")[2].removesuffix(".exe")
    if "@" in name[1:]:  # `npx rimraf@5`
        name = name[: name.index("@", 1)]
    bare = _VERSION.sub("", name)
    return bare if bare in _VERSIONED else name


def strip(argv: tuple[str, ...], prefix: Prefix) -> tuple[str, ...]:
    """The program behind a wrapper, whose name (and subcommand) is not in `argv` any more."""
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


def subcommand(argv: tuple[str, ...]) -> tuple[Prefix, tuple[str, ...]] | None:
    """Of `docker -H x exec ...` and the like: the prefix, and what follows the subcommand."""
    name = argv[0]
    value_options = GLOBAL_OPTIONS.get(name, frozenset())
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
        prefix = SUBCOMMANDS.get(path)
        if prefix is not None:
            return prefix, argv[at:]
    return None


def shell_script(argv: tuple[str, ...]) -> tuple[str | None, tuple[str, ...], bool]:
    """Of `bash -lc TEXT args`: the text, its arguments, and whether the shell would read its input instead."""
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
    """Of `ssh host words`: the text that runs there, and whether a shell reads the input there instead."""
    rest = _after_options(argv[1:], _SSH_VALUE_OPTIONS)
    if len(rest) > 1:
        return " ".join(_after_options(rest[1:], _SSH_VALUE_OPTIONS)), False
    return None, bool(rest)


def su_script(argv: tuple[str, ...]) -> str | None:
    """Of `su [-] user -c TEXT` and `runuser`: the text."""
    return parse(argv[1:], frozenset(("-c", "--command"))).value("-c", "--command")


def watch_script(argv: tuple[str, ...]) -> str:
    """Of `watch -n 5 words`: the text that it runs again and again."""
    return " ".join(_after_options(argv[1:], frozenset(("-n", "--interval"))))


def xargs_command(argv: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Of `xargs -I {} program words`: the program with its words, and the placeholder, or an empty text."""
    inner = _after_options(argv[1:], _XARGS_VALUE_OPTIONS)
    options = parse(argv[1 : len(argv) - len(inner)], _XARGS_VALUE_OPTIONS)
    return inner, options.value("-I") or ("{}" if options.has("-i") else "")


def parallel_command(argv: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Of `parallel program words ::: items`: the program with its words, and the items if they are written there."""
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
