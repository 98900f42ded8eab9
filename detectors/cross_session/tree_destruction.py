"""A session and those that it started destroy too much together: each of them may do little.

Fires: with two sessions of the tree or more, `tree_destroyed_again` on the `same_target`-th attempt at one target
    within `window_s`, critical with twice as many less one; `tree_destruction` (medium) from `max_destructive` acts on
    within `volume_window_s`. It is the first session that is stopped, and all below goes with it.
Quiet: what one session does alone, which its own rules judge; declared batches; scratch, and what the session made.
Misses: sessions that name neither their parent nor their root; one session that makes what another destroys is taken
    for two acts on somebody's thing.
"""

from typing import ClassVar

from haltline.detectors.cross_session.agent_destruction import AgentDestruction, State
from haltline.detectors.framework.base import settings
from haltline.schemas.signals import SignalScope

__all__ = ["State", "TreeDestruction"]


@settings
class TreeDestruction(AgentDestruction):
    """The same target again, or too many, from several sessions of one tree."""

    id: ClassVar[str] = "tree_destruction"
    scope: ClassVar[SignalScope] = SignalScope.ROOT
    repeated: ClassVar[str] = "tree_destroyed_again"
    whose: ClassVar[str] = "one tree"
