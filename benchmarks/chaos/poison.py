"""Events that end the worker that decides them: a detector of another package hangs, crashes or eats memory there."""

from pathlib import Path
from typing import Final

RULE: Final = "poisoned"
"""The detector's id; it runs only if a policy names it."""
ACTIONS: Final = ("hangs", "kills", "eats")
"""The actions of these events."""

_CODE: Final = """
import ctypes
import os
import signal
from dataclasses import dataclass
from typing import ClassVar

from haltline.detectors.framework.base import Detector
from haltline.schemas.events import Kind

MEMORY_MIB = 600


def eat():
    eaten = [b"x" * 2**20 for _ in range(MEMORY_MIB)]
    os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does where a container has no more


ENDS = {
    "hangs": lambda: ctypes.PyDLL(None).sleep(600),  # holds the interpreter, as a regular expression does
    "kills": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "eats": eat,
}


@dataclass(slots=True)
class State:
    events: int = 0


class Poisoned(Detector[State]):
    id: ClassVar[str] = "poisoned"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.PROPOSED})

    def observe(self, state, act):
        ENDS.get(act.action, lambda: None)()
        return None
"""


def install(folder: Path) -> None:
    """Install the detector's package into a folder, as pip does."""
    information = folder / "poisoned-1.0.dist-info"
    information.mkdir(parents=True)
    (folder / "poisoned.py").write_text(_CODE)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: poisoned\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[haltline.detectors]\n{RULE} = poisoned:Poisoned\n")
