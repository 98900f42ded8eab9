"""A mission has used up its budget, summed over all sessions and agents that work on it.

Fires: `budget_warning` (low) when the total reaches `warn_at` of its limit; `budget_exceeded` (critical) when it is
    above the limit, and again with each further tenth of it. Resources: tokens (including those read from a cache),
    cost_usd, calls, file_ops.
Quiet: always without a limit, and there is none by default; sessions that name no mission.
Misses: usage that is not reported; up to a hundredth of the limit per running session, which it has not reported yet;
    usage before a mission was idle for longer than sessions are stored.
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
