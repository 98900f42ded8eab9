"""The sessions of one mission destroy too much together, whichever agents they are of.

Fires: with two sessions or more, `mission_destroyed_again` on the `same_target`-th attempt at one target within
    `window_s`, critical with twice as many less one; `mission_destruction` (medium) from `max_destructive` acts within
    `volume_window_s` on; and on each further one.
Quiet: what one session does alone, which its own rules judge; declared batches; scratch; what is local to a machine.
Misses: sessions that name no mission; one session that makes what another destroys is taken for two acts on somebody's
    thing.
"""

from typing import ClassVar

from haltline.detectors.cross_session.agent_destruction import AgentDestruction, State
from haltline.detectors.framework.base import settings
from haltline.schemas.signals import SignalScope

__all__ = ["MissionDestruction", "State"]


@settings
class MissionDestruction(AgentDestruction):
    """The same target again, or too many, from several sessions of one mission."""

    id: ClassVar[str] = "mission_destruction"
    scope: ClassVar[SignalScope] = SignalScope.MISSION
    repeated: ClassVar[str] = "mission_destroyed_again"
    whose: ClassVar[str] = "one mission"
