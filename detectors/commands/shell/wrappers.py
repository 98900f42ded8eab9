"""Programs that run another program given in their arguments.

Misses: `npm run` and every script whose text is elsewhere; programs started by an alias. `carriers` reads programs with
a whole command line in one argument.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from haltline.detectors.commands.model import listed
from haltline.detectors.commands.shell.options import parse
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


_WRAPPERS = """
sudo | -u --user -g --group -h --host -p --prompt -C -D --chdir -r -t -T -U |
doas | -u -C |
env | -u --unset -C --chdir |
nohup, setsid, command, builtin, busybox, unbuffer, unshare, firejail, fakeroot, prlimit, numactl, perf-stat, \
valgrind, chronic, catchsegv, coproc, bunx, poetry run, pipenv run, pdm run, hatch run, rye run, bundle exec, pnpm \
exec, pnpm dlx, yarn dlx, yarn run, just --command |  |
time | -f --format -o --output |
timeout, gtimeout | -s --signal -k --kill-after | 1
nice | -n --adjustment |
ionice | -c --class -n --classdata |
stdbuf | -i -o -e --input --output --error |
exec | -a |
caffeinate | -t -w |
chroot, mosh, lxc exec, multipass exec | | 1 remote
flock | -w --wait --timeout -E | 1
strace | -e -o -p -s -u -P |
nsenter | -t --target | remote
systemd-run | -p --property -u --unit --slice -E --setenv --description --on-calendar --on-active |
proot | -r -b -w | remote
sshpass | -p -f -e -P -d |
taskset, gosu, su-exec, setarch, direnv exec | | 1
chrt | -T -P -D -p | 1
runuser | -u --user -g --group -G -s --shell |
cgexec | -g |
parallel-ssh | -h -H -l | remote
pdsh | -w -l -f | remote
clush | -w -g -f | remote
faketime | -f | 1
xvfb-run | -e -f -n -s -p -w |
dotenv | -f --file -e |
npx | -p --package |
uvx | --from --with -p --python |
uv run | --with --python -p --project --directory --extra --group --env-file --package |
conda run | -n --name -p --prefix --cwd |
npm exec, npm x | -p --package -w --workspace |
aws-vault exec | -d --duration | 1
op run | --env-file | dashes
doppler run | -p -c --project --config | dashes
railway run | -s -e --service --environment |
heroku run | -a --app -r --remote -s --size | remote
docker exec | -u --user -w --workdir -e --env --env-file --detach-keys | 1 remote
docker run | -u --user -w --workdir -e --env --env-file --name -v --volume --mount -p --publish --network --net -h \
--hostname --entrypoint -m --memory --cpus --gpus --platform -l --label --add-host --device --ipc --pull --restart \
--shm-size --tmpfs --ulimit --user --userns --volumes-from --log-driver --cidfile --pid | 1 remote
docker compose exec | -u --user -w --workdir -e --env --index | 1 remote
docker compose run | -u --user -w --workdir -e --env --name -v --volume -p --entrypoint | 1 remote
kubectl exec, kubectl run, kubectl debug | | remote dashes
perf stat | -e -r -o |
"""
"""A line: programs with their subcommands, options with a value, number of operands; `remote`, `dashes`: `Prefix`."""


def _read() -> Iterator[tuple[tuple[str, ...], Prefix]]:
    for line in filter(None, _WRAPPERS.splitlines()):
        names, options, more = (cell.split() for cell in f"{line} ".split("|"))
        operands = next((int(word) for word in more if word.isdigit()), 0)
        prefix = Prefix(frozenset(options), operands, "remote" in more, "dashes" in more)
        for name in " ".join(names).split(","):
            yield tuple(name.split()), prefix


SUBCOMMANDS: Mapping[tuple[str, ...], Prefix] = dict(_read())
PREFIXES: Mapping[str, Prefix] = {path[0]: prefix for path, prefix in SUBCOMMANDS.items() if len(path) == 1}

_SYNONYMS = """
podman nerdctl | docker
docker-compose podman-compose | docker compose
oc k | kubectl
tofu terragrunt | terraform
gsudo | sudo
mariadb | mysql
mongosh | mongo
valkey-cli | redis-cli
mariadb-admin | mysqladmin
bundler | bundle
"""
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    name: tuple(same.split())
    for names, _, same in (line.partition(" | ") for line in _SYNONYMS.splitlines())
    for name in names.split()
}
"""Other names of programs with the same behaviour."""

_GLOBAL_OPTIONS = """
docker -H --host --context -c --config -l --log-level -f --file -p --project-name --profile --env-file \
 --project-directory
kubectl -n --namespace --context --cluster --user --kubeconfig -s --server --token --as --as-group --request-timeout -v
aws --profile --region --output --endpoint-url --color --query
gcloud --project --account --configuration --format --verbosity
az --subscription --output -o
helm -n --namespace --kube-context --kubeconfig
git -C -c --git-dir --work-tree --namespace
hg --config -R --repository --cwd
npm -w --workspace --prefix
gh -R --repo -X --method -H --header
cargo --manifest-path -p --package
borg --remote-path --rsh
restic -r --repo -p --password-file
terraform -chdir
pulumi -s --stack -C --cwd
cdk -a --app --profile
serverless --stage -s --region
sam --stack-name --region
rpk -X --brokers
dropuser -h -p -U
"""
GLOBAL_OPTIONS: Mapping[str, frozenset[str]] = {
    name: frozenset(options) for name, *options in map(str.split, _GLOBAL_OPTIONS.strip().splitlines())
}
"""Options with a value that may precede a program's words."""

# `yarn prisma ...` runs the installed program of that name.
_SCRIPT_RUNNERS = frozenset(("yarn", "pnpm"))
_INSTALLED_PROGRAMS = frozenset(("prisma", "rimraf", "sequelize", "sequelize-cli", "typeorm", "del-cli", "wrangler",
    "drizzle-kit", "knex", "supabase"))  # fmt: skip

_VERSION = re.compile(r"(?<![\d.])[\d.]+$")
_VERSIONED = frozenset(("python", "pypy", "ruby", "perl", "php", "node", "pip", "sqlite", "psql"))

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
    return bare if bare in _VERSIONED else name


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


def subcommand(argv: tuple[str, ...]) -> tuple[Prefix, tuple[str, ...]] | None:
    """Return the prefix of `docker -H x exec ...` and similar commands, and the arguments after the subcommand."""
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


_VALUED_OF_EXEC = frozenset(("-c", "--container", "-n", "--namespace", "--context"))


def ssh_host(argv: tuple[str, ...]) -> str:
    """Return the host of `ssh user@host words`; empty for this one."""
    host = "".join(_after_options(argv[1:], _SSH_VALUE_OPTIONS)[:1]).rpartition("@")[2]
    return "" if host in ("localhost", "127.0.0.1", "::1") else host


def machine(argv: tuple[str, ...]) -> str:
    """Return the container, pod or host of the words before a remote program; empty if it has files of this one."""
    if argv[0] in ("chroot", "nsenter", "proot") or (argv[0] == "docker" and "run" in argv):
        return ""
    at = next((at for at, word in enumerate(argv) if word in ("exec", "run", "debug")), 0)
    words = argv[at + 1 :]
    first = parse(words, _VALUED_OF_EXEC).operands[:1] if argv[0] == "kubectl" else ()
    return next(iter((*first, *(word for word in reversed(words) if word[:1] != "-"))), "")


def watch_script(argv: tuple[str, ...]) -> str:
    """Return the text that `watch -n 5 words` repeats."""
    return " ".join(_after_options(argv[1:], frozenset(("-n", "--interval"))))


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
