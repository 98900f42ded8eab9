"""How often the product looks at things in the simulation: less often than in life, for each look costs steps.

Nothing is redacted either: what is taken out of a record follows from that record alone.
"""

from typing import Final

from haltline.console.read_model import feeder
from haltline.streams.audit import sink
from haltline.streams.runtime import confirmed_producer, source_reader, worker_process, zombie_guard

_PACES: Final = (
    (source_reader, "_LOOK_EVERY_S", 0.8),
    (worker_process, "_HOUSEKEEPING_EVERY_S", 0.4),
    (zombie_guard, "_BEAT_EVERY_S", 0.5),
    (confirmed_producer, "_POLL_EVERY_S", 0.02),
    (sink, "_STOP_SEEN_WITHIN_S", 0.8),
    (feeder, "_WAIT_S", 0.8),
    (feeder, "_ALONG_S", 1.0),
    (feeder, "Redaction", lambda _: None),
)


def slow_down() -> None:
    """Sets the intervals of this process. Raises AttributeError when the product has one no longer."""
    for module, name, instead in _PACES:
        getattr(module, name)
        setattr(module, name, instead)
