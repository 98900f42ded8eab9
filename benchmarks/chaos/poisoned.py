"""A detector as another package may have it: at some actions it hangs, crashes or eats memory."""

import ctypes
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from haltline.detectors.features.observation import Observation
from haltline.detectors.framework.base import Detector
from haltline.schemas.events import Kind

_EATS_MIB: Final = 600
"""More than a trial allows for one record."""


def _eat() -> None:
    eaten = bytearray()
    for _ in range(_EATS_MIB):
        eaten += b"x" * 1024 * 1024
    os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does where a container has no more


ENDS: Final[Mapping[str, Callable[[], object]]] = {
    "hangs": lambda: ctypes.PyDLL(None).sleep(600),  # no other thread runs, as in a regular expression
    "kills": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "eats": _eat,
}
"""By action: how it ends the process."""


@dataclass(slots=True)
class State:
    """None."""


class Poisoned(Detector[State]):
    """Finds nothing."""

    id: ClassVar[str] = "poisoned"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.PROPOSED})

    def concerns(self, act: Observation) -> bool:
        """Return whether it ends the process at this event."""
        return act.action in ENDS

    def observe(self, state: State, act: Observation) -> None:  # noqa: ARG002  # it has none
        """End the process."""
        ENDS[act.action]()
