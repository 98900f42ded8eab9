"""The whole machine: power, permissions of system folders, all processes, disks with macOS's tool.

Always SEVERE, since every user of the machine is affected. Stopping one service or process destroys no data and is
ignored.

Misses: `init 0`, `kexec`, permissions that are removed file by file, `find -exec chmod`.
"""

from collections.abc import Callable, Iterator, Mapping

from haltline.detectors.commands.model import Badness, Destruction
from haltline.detectors.commands.shell.invocation import Invocation

Reader = Callable[[Invocation], Iterator[Destruction]]

_SYSTEM_FOLDERS = frozenset((
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/root", "/sbin", "/sys", "/usr", "/var",
    "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin", "/var/lib", "/System", "/Library", "/Users",
))  # fmt: skip
_POWER = frozenset(("poweroff", "halt", "reboot", "kexec", "soft-reboot"))
_ERASING = frozenset(("erasedisk", "erasevolume", "partitiondisk", "secureerase", "zerodisk", "randomdisk", "reformat"))
_DELETING = frozenset(("deletevolume", "deletecontainer", "deletevolumegroup"))


def _rights(verb: str) -> Reader:
    """Return a reader of `chmod -R` and similar programs on system folders."""

    def read(invocation: Invocation) -> Iterator[Destruction]:
        options = invocation.options()
        if not options.has("-R", "--recursive"):
            return
        from_another = any(word.startswith("--reference") for word in invocation.argv[1:])
        for operand in options.operands[not from_another :]:  # the first one is the mode, or the owner
            path = invocation.path(operand)
            place = path[:-2] or "/" if path.endswith("/*") else path
            if place in _SYSTEM_FOLDERS:
                yield Destruction(verb, f"path={path}", Badness.SEVERE)

    return read


def _off(invocation: Invocation) -> Iterator[Destruction]:
    options = invocation.options()
    if not options.has("-c", "-k", "--show", "-w", "--wtmp-only"):  # cancels it, only warns, or only writes a record
        yield Destruction("power_off", "machine=this", Badness.SEVERE)


def _systemctl(invocation: Invocation) -> Iterator[Destruction]:
    options = invocation.options("-H --host -M --machine -t --type")
    if options.operands[:1] and options.operands[0] in _POWER:
        machine = options.value("-H", "--host", "-M", "--machine") or "this"
        yield Destruction("power_off", f"machine={machine}", Badness.SEVERE)


def _kill(invocation: Invocation) -> Iterator[Destruction]:
    words = invocation.argv[1:]
    if len(words) > 1 and words[-1] == "-1" and words[0] not in ("-l", "-L"):
        yield Destruction("kill_all", "processes=*", Badness.SEVERE)


def _diskutil(invocation: Invocation) -> Iterator[Destruction]:
    words = tuple(word for word in invocation.argv[1:] if word != "quiet")
    if words[:1] in (("apfs",), ("appleRAID",)):
        words = words[1:]
    verb = words[0].lower() if words else ""
    if verb in _ERASING or verb in _DELETING:
        disk = words[1] if verb in _DELETING and len(words) > 1 else words[-1]
        yield Destruction("diskutil", f"device={disk}", Badness.SEVERE)


TOOLS: Mapping[str, Reader] = {
    "chmod": _rights("chmod_recursive"),
    "chown": _rights("chown_recursive"),
    "chgrp": _rights("chown_recursive"),
    "shutdown": _off,
    **dict.fromkeys(("poweroff", "halt", "reboot"), _off),
    "systemctl": _systemctl,
    "kill": _kill,
    "diskutil": _diskutil,
}
