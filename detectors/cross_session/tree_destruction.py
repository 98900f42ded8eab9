"""A session and those that it started together destroy too much: each of them may do little.

Fires: with at least two sessions of the tree, `tree_destroyed_again` on the `same_target`-th attempt at one target
    within `window_s` (high; critical from twice as many less one on), and `tree_destruction` (medium) from
    `max_destructive` acts within `volume_window_s` on. The first session of the tree is stopped, and with it all below.
Quiet: what one session does alone, which is left to its own rules; declared batches; scratch files, and what the
    session created.
Misses: sessions that name neither their parent nor their root. If one session creates what another destroys, both count
    as acts on others' things.
"""

from typing import ClassVar

from haltline.detectors.cross_session.agent_destruction import AgentDestruction, State
from haltline.detectors.framework.base import settings
from haltline.schemas.signals import SignalScope

__all__ = ["State", "TreeDestruction"]


@settings
class TreeDestruction(AgentDestruction):
    """Repeated attempts at one target, or too many acts, by several sessions of one tree."""

    id: ClassVar[str] = "tree_destruction"
    scope: ClassVar[SignalScope] = SignalScope.ROOT
    repeated: ClassVar[str] = "tree_destroyed_again"
    whose: ClassVar[str] = "one tree"
