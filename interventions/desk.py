"""What operators, the agent's side and the clock do to one session: pure, one thing at a time."""

from haltline.interventions import proof
from haltline.interventions.controller import Standing
from haltline.interventions.said import NOTHING, Said, Who
from haltline.schemas.policy import Policy


class Desk:
    """What follows, under one policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    @staticmethod
    def due_ms(standing: Standing) -> int:
        """When the next tick has something to do, epoch milliseconds on the worker's clock; 0: never."""
        return 0 if standing.killed is None else proof.due_ms(standing.killed)

    def tick(self, standing: Standing, who: Who, now_ms: int) -> Said:
        """Does the first thing that is due by now."""
        if standing.killed is not None:
            return proof.on_due(standing, who, self._policy, now_ms)
        return NOTHING
