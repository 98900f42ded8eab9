"""The operating system: accounts, schedules, firewalls, packages.

Stopping services and processes destroys no data and is ignored.

Misses: editing of `/etc` by other means, kernel and boot settings, snaps.
"""

from collections.abc import Callable, Iterator, Mapping

from haltline.detectors.commands.model import Badness, Destruction
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.schemas import expressions as re

Reader = Callable[[Invocation], Iterator[Destruction]]


def _crontab(invocation: Invocation) -> Iterator[Destruction]:
    options = invocation.options("-u")
    blank = "-" in invocation.argv and invocation.stdin is not None and not invocation.stdin.strip()
    if options.has("-r") or blank or options.operands[:1] == ("/dev/null",):
        yield Destruction("crontab_remove", f"crontab={options.value('-u') or 'own'}", Badness.PLAIN)


def _firewall(name: str, *commands: tuple[str, ...]) -> Reader:
    def read(invocation: Invocation) -> Iterator[Destruction]:
        words = invocation.argv[1:]
        if any(words[at : at + len(command)] == command for command in commands for at in range(len(words))):
            yield Destruction("firewall_flush", f"firewall={name}", Badness.PLAIN)

    return read


_SERVICES = re.compile(
    r"postgres|mysql|mariadb|mongo|redis|elastic|opensearch|rabbitmq|kafka|docker|containerd|kube|linux-image|systemd|"
    r"openssh-server|sudo|libc|nginx|apache2|etcd|grub|clickhouse|vault|jenkins|gitlab"
)
"""Packages of permanently running services."""


def _packages(verb: str, bad: Badness, *commands: str) -> Reader:
    """Return a reader of package managers. Removed packages can be reinstalled, except services with their data."""

    def read(invocation: Invocation) -> Iterator[Destruction]:
        options = invocation.options("-o -c -t")
        words = options.operands
        if words[:1] and words[0] in commands and not options.has("--dry-run", "-s", "--simulate", "--just-print"):
            kept = bad if words[0] == "purge" else Badness.SCRATCH
            for name in words[1:]:
                yield Destruction(verb, f"package={name}", Badness.PLAIN if _SERVICES.match(name) else kept)

    return read


def _unpublish(invocation: Invocation) -> Iterator[Destruction]:
    """Unpublishing a version, or all of them with --force, breaks its users."""
    options = invocation.options()
    words = options.operands
    if words[:1] == ("unpublish",) and not options.has("--dry-run"):
        forced = options.has("-f", "--force")
        for name in words[1:] or (invocation.path("."),):
            bad = Badness.SEVERE if forced and "@" not in name[1:] else Badness.PLAIN
            yield Destruction("npm_unpublish", f"package={name}", bad)


_PIP = _packages("pip_uninstall", Badness.SCRATCH, "uninstall")


def _uv(invocation: Invocation) -> Iterator[Destruction]:
    if invocation.argv[1:2] == ("pip",):
        yield from _packages("pip_uninstall", Badness.SCRATCH, "uninstall")(
            Invocation(argv=invocation.argv[1:], cwd=invocation.cwd, start=invocation.start)
        )


TOOLS: Mapping[str, Reader] = {
    "crontab": _crontab,
    "iptables": _firewall("iptables", ("-F",), ("--flush",), ("-X",)),
    "ip6tables": _firewall("ip6tables", ("-F",), ("--flush",), ("-X",)),
    "nft": _firewall("nft", ("flush", "ruleset"), ("delete", "table")),
    "ufw": _firewall("ufw", ("reset",)),
    "pip": _PIP,
    "pipx": _PIP,
    "uv": _uv,
    "conda": _packages("conda_remove", Badness.SCRATCH, "remove", "uninstall"),
    "apt": _packages("apt_remove", Badness.PLAIN, "remove", "purge", "autoremove"),
    "apt-get": _packages("apt_remove", Badness.PLAIN, "remove", "purge", "autoremove"),
    "yum": _packages("yum_remove", Badness.PLAIN, "remove", "erase", "autoremove"),
    "dnf": _packages("yum_remove", Badness.PLAIN, "remove", "erase", "autoremove"),
    "apk": _packages("apk_del", Badness.PLAIN, "del"),
    "brew": _packages("brew_uninstall", Badness.SCRATCH, "uninstall", "remove", "rm"),
    "npm": _unpublish,
    "pnpm": _unpublish,
    "yarn": _unpublish,
}
