"""The sessions of one mission together destroy too much, whichever agents they belong to.

Fires: with at least two sessions, `mission_destroyed_again` on the `same_target`-th attempt at one target within
    `window_s` (high; critical from twice as many less one on), and `mission_destruction` (medium) from
    `max_destructive` acts within `volume_window_s` on; both again on each further one.
Quiet: what one session does alone, which is left to its own rules; declared batches; scratch files; what is local to
    a machine.
Misses: sessions that name no mission. If one session creates what another destroys, both count as acts on others'
    things.
"""

from typing import ClassVar

from haltline.detectors.cross_session.agent_destruction import AgentDestruction, State
from haltline.detectors.framework.base import settings
from haltline.schemas.signals import SignalScope

__all__ = ["MissionDestruction", "State"]


@settings
class MissionDestruction(AgentDestruction):
    """Repeated attempts at one target, or too many acts, by several sessions of one mission."""

    id: ClassVar[str] = "mission_destruction"
    scope: ClassVar[SignalScope] = SignalScope.MISSION
    repeated: ClassVar[str] = "mission_destroyed_again"
    whose: ClassVar[str] = "one mission"
