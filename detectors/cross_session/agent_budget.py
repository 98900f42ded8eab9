"""An agent has used up its budget, summed over all of its sessions.

Fires: `budget_warning` (low) when the total of a period reaches `warn_at` of its limit; `budget_exceeded` (critical)
    when it is above the limit, and again with each further tenth of it. Resources: tokens (including those read from a
    cache), cost_usd, calls, file_ops.
Quiet: always without a limit, and there is none by default.
Misses: usage that is not reported; up to a hundredth of the limit per running session, which it has not reported yet.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from haltline.detectors.cross_session.shared_budget import SharedBudget, State
from haltline.detectors.framework.base import settings
from haltline.detectors.framework.strictness import Stricter
from haltline.schemas.signals import SignalScope

__all__ = ["AgentBudget", "State"]

_HOUR_MS = 3_600_000


@settings
class AgentBudget(SharedBudget):
    """The total of an agent's sessions in a period."""

    id: ClassVar[str] = "agent_budget"
    scope: ClassVar[SignalScope] = SignalScope.AGENT

    period_h: Annotated[int, Field(ge=1, le=8784), Stricter.NEITHER] = 24
    """Hours of event time, counted from 1970: with 24, days in UTC. The total restarts with each period."""

    def period_of(self, time_ms: int) -> int:
        """The number of periods before this one."""
        return time_ms // (self.period_h * _HOUR_MS)
