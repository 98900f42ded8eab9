"""Command lines with what they destroy, as they stand in tables/*.txt.

A case is a sentence, the command line (`  $ `, one for each of its lines), and its losses (`  > verb target BADNESS`);
in creations.txt, what it makes (`  > target`).
"""

from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from haltline.detectors.commands import Badness, Destruction

Case = tuple[str, str, tuple[str, ...]]

_FOLDER = Path(__file__).with_name("tables")
_COMMAND = "  $"
_LOSS = "  > "


def load(name: str) -> list[Case]:
    """The cases of one file, by its name without the suffix."""
    found = []
    for block in (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").strip("\n").split("\n\n"):
        sentence, *lines = block.split("\n")
        command = [line.removeprefix(_COMMAND).removeprefix(" ") for line in lines if line.startswith(_COMMAND)]
        losses = tuple(line.removeprefix(_LOSS) for line in lines if line.startswith(_LOSS))
        if not command or len(command) + len(losses) != len(lines):
            message = f"{name}.txt: expected a sentence, `{_COMMAND} ` and `{_LOSS}` lines; got {block!r}"
            raise ValueError(message)
        found.append((sentence, "\n".join(command), losses))
    return found


def parameters(*names: str) -> list[ParameterSet]:
    """The cases of some files for pytest.mark.parametrize, with their sentences as ids."""
    return [pytest.param(command, losses, id=sentence) for name in names for sentence, command, losses in load(name)]


def tuples(found: tuple[Destruction, ...]) -> tuple[str, ...]:
    """Destructions as they are written in the files: `rm path=/a SEVERE`."""
    return tuple(f"{d.verb} {d.target} {Badness(d.badness).name}" for d in found)


COMMAND_FILES = ("files", "shell", "git", "databases", "clouds", "machine", "harmless")
COMMANDS = tuple(command for name in COMMAND_FILES for _, command, _ in load(name))
"""All command lines, destructive or not."""

DESTRUCTIVE = tuple(command for name in COMMAND_FILES for _, command, losses in load(name) if losses)
