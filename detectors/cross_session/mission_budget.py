"""A mission has used up what it was given, over all sessions and agents that work on it.

Fires: `budget_warning` (low) when the total reaches `warn_at` of its limit; `budget_exceeded` (critical) when it is
    more than the limit, and again with each further tenth of it. Resources: tokens (with those read from a cache),
    cost_usd, calls, file_ops.
Quiet: without a limit, always: there is none by default; sessions that name no mission.
Misses: what is used but not told; of each running session up to a hundredth of the limit that it has not told yet; what
    a mission used before it was idle for longer than sessions are kept.
"""

from typing import ClassVar

from haltline.detectors.cross_session.shared_budget import SharedBudget, State
from haltline.detectors.framework.base import settings
from haltline.schemas.signals import SignalScope

__all__ = ["MissionBudget", "State"]


@settings
class MissionBudget(SharedBudget):
    """The total of a mission's sessions."""

    id: ClassVar[str] = "mission_budget"
    scope: ClassVar[SignalScope] = SignalScope.MISSION
