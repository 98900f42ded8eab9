"""Events that end the worker that decides them: a detector of another package hangs, crashes or eats memory there."""

import os
from pathlib import Path
from typing import Final

import orjson

from haltline.schemas.topics import Topics
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.replay.records import LogRecord

RULE: Final = "poisoned"
"""The detector's id; it runs only if a policy names it."""
ACTIONS: Final = ("hangs", "kills", "eats")
"""The actions of these events."""
_SESSIONS: Final = "poisoned-"
_START_MS: Final = 1_750_000_000_000

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

    def concerns(self, act):
        return act.action in ENDS

    def observe(self, state, act):
        ENDS[act.action]()
"""


def install(folder: Path) -> dict[str, str]:
    """Install the detector's package into a folder, as pip does; return the environment of processes that find it."""
    information = folder / "poisoned-1.0.dist-info"
    information.mkdir(parents=True)
    (folder / "poisoned.py").write_text(_CODE)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: poisoned\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[haltline.detectors]\n{RULE} = poisoned:Poisoned\n")
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


class Poison:
    """Sends such events, each in a session of its own."""

    def __init__(self, bootstrap: str, topics: Topics) -> None:
        self._bootstrap = bootstrap
        self._topics = topics
        self._sent = 0

    def strike(self) -> None:
        """Send one event of each kind."""
        for action in ACTIONS:
            self._sent += 1
            name, time_ms = f"{_SESSIONS}{self._sent}", _START_MS + self._sent
            event = {
                "event_id": name, "session_id": name, "agent_id": name, "time": time_ms, "kind": "action.proposed",
                "call_id": name, "action": action,
            }  # fmt: skip
            produce_confirmed(self._bootstrap, self._topics.actions, key=name.encode(), value=orjson.dumps(event))


def ends_worker(record: LogRecord) -> bool:
    """Return whether a record is one of these."""
    return (record.key or b"").startswith(_SESSIONS.encode())
