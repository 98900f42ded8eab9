"""Disks, volumes and file systems: tools that overwrite or remove them.

Misses: partitions by numbers, tools of storage arrays.
"""

from collections.abc import Callable, Iterator, Mapping

from haltline.detectors.commands.files import device_loss, is_disk, lost_path
from haltline.detectors.commands.model import Destruction
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.options import Options, parse
from haltline.schemas import expressions as re

Reader = Callable[[Invocation], Iterator[Destruction]]
_FILLERS = frozenset(("if=/dev/zero", "if=/dev/null", "if=/dev/urandom", "if=/dev/random"))


def _dd(invocation: Invocation) -> Iterator[Destruction]:
    for argument in invocation.argv[1:]:
        if argument.startswith("of=") and is_disk(invocation.path(argument[3:])):
            yield device_loss("dd", invocation.path(argument[3:]))
        elif (
            argument.startswith("of=")
            and not argument.startswith("of=/dev/")
            and not _FILLERS.isdisjoint(invocation.argv)
        ):
            yield from _overwritten(invocation, argument[3:])


def _overwritten(invocation: Invocation, path: str) -> Iterator[Destruction]:
    # New images, swap files and test data are created in the same way; their names show it.
    if not re.search(r"\.(?:img|iso|bin|swap|dat|raw|qcow2|test|tmp)$|swapfile|zero|random|test|dummy", path):
        yield lost_path("dd", invocation, path)


def _disk_tool(
    verb: str, *, only_with: tuple[str, ...] = (), not_with: tuple[str, ...] = (), value_options: tuple[str, ...] = ()
) -> Reader:
    """Return a reader of tools that overwrite a disk or a disk image."""
    takes_value = frozenset(value_options)

    def read(invocation: Invocation) -> Iterator[Destruction]:
        options: Options = parse(invocation.argv[1:], takes_value)
        words = set(invocation.argv[1:])
        if (only_with and not words & set(only_with) and not options.has(*only_with)) or (
            words & set(not_with) or options.has(*not_with)
        ):
            return
        disks = [operand for operand in options.operands if is_disk(operand)]
        for operand in disks or [operand for operand in options.operands[-1:] if "/" in operand or "." in operand]:
            yield lost_path(verb, invocation, operand)

    return read


_MKFS = _disk_tool(
    "mkfs", not_with=("-n", "-N"), value_options=("-t", "--type", "-L", "-b", "-m", "-i", "-O", "-E", "-U")
)


TOOLS: Mapping[str, Reader] = {
    "dd": _dd,
    "mkfs": _MKFS,
    "mke2fs": _MKFS,
    "mkswap": _disk_tool("mkswap"),
    "newfs": _disk_tool("mkfs", not_with=("-N",)),
    "wipefs": _disk_tool(
        "wipefs", only_with=("-a", "--all", "-o"), not_with=("-n", "--no-act"), value_options=("-o", "-t")
    ),
    "fdisk": _disk_tool("fdisk", not_with=("-l", "--list", "-s")),
    "sfdisk": _disk_tool("sfdisk", not_with=("-l", "-d", "--dump", "--list", "-n", "--no-act", "--json", "-J")),
    "sgdisk": _disk_tool("sgdisk", not_with=("-p", "--print", "-i", "--info", "-v", "--verify", "-P", "--pretend")),
    "parted": _disk_tool("parted", only_with=("mklabel", "mktable", "rm", "mkpart", "resizepart")),
    "blkdiscard": _disk_tool("blkdiscard"),
    "badblocks": _disk_tool("badblocks", only_with=("-w",)),
    "cryptsetup": _disk_tool("cryptsetup", only_with=("luksFormat", "luksErase", "erase", "reencrypt")),
    "mdadm": _disk_tool("mdadm", only_with=("--zero-superblock",)),
    "hdparm": _disk_tool("hdparm", only_with=("--security-erase", "--trim-sector-ranges")),
    "nvme": _disk_tool("nvme", only_with=("format", "sanitize", "delete-ns")),
    "pvremove": _disk_tool("pvremove"),
}  # fmt: skip
