"""Events that end the worker that decides them, by a detector that is installed for the run."""

import os
from pathlib import Path
from typing import Final

import orjson

from benchmarks.chaos.poisoned import ENDS, Poisoned
from haltline.detectors.framework.plugins import Plugins, Source
from haltline.schemas.topics import Topics
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.replay.records import LogRecord

PLUGINS: Final = Plugins({Poisoned.id: Source(lambda: Poisoned, Poisoned.__module__)})
"""The detector as its workers find it; it runs only if a policy names it."""
_ROOT: Final = Path(__file__).parents[2]
_SESSIONS: Final = "poisoned-"
_START_MS: Final = 1_750_000_000_000


def install(folder: Path) -> dict[str, str]:
    """Make a package of the detector in a folder; return the environment of processes that find it."""
    information = folder / "poisoned-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: poisoned\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        f"[haltline.detectors]\n{Poisoned.id} = {Poisoned.__module__}:{Poisoned.__name__}\n"
    )
    return {"PYTHONPATH": os.pathsep.join([str(folder), str(_ROOT), os.environ.get("PYTHONPATH", "")])}


class Poison:
    """Sends such events, each in a session of its own."""

    def __init__(self, bootstrap: str, topics: Topics) -> None:
        self._bootstrap = bootstrap
        self._topics = topics
        self._sent = 0

    def strike(self) -> None:
        """Send one event of each kind."""
        for action in ENDS:
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
