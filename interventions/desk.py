"""What operators, the agent's side and the clock do to one session: pure, one thing at a time."""

from dataclasses import replace

from haltline.interventions import approvals, asked, holding, probation, proof
from haltline.interventions.probation import Released
from haltline.interventions.said import NOTHING, Said, Who
from haltline.interventions.standing import Standing
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.policy import Policy

_ANSWERS = frozenset(
    {CommandKind.APPROVE, CommandKind.REJECT, CommandKind.ASK, CommandKind.ANSWER, CommandKind.WITHDRAW}
)
_HOLDS = frozenset({CommandKind.FREEZE, CommandKind.CONTAIN, CommandKind.LIFT})


class Desk:
    """What follows, under one policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def command(self, standing: Standing, who: Who, command: Command) -> Said:
        """Carries out what an operator asks for."""
        if command.kind is CommandKind.REQUEST:
            return asked.on_request(standing, who, command, self._policy)
        if command.kind is CommandKind.USE:
            return approvals.on_use(standing, who, command, self._policy)
        if command.kind in _ANSWERS:
            frozen = approvals.freezes(standing, command)
            said = approvals.on_command(standing, who, command, self._policy)
            if frozen and said.told == "approval_approved":
                lifted = holding.lift(standing, who)
                return replace(said, control=lifted.control, released=lifted.released)
            return said
        if command.kind in _HOLDS:
            return holding.on_command(standing, who, command)
        return NOTHING

    def reset(self, standing: Standing, who: Who, command: Command) -> Released:
        """An operator's reset."""
        return probation.reset(standing, who, command, self._policy)

    @staticmethod
    def due_ms(standing: Standing) -> int:
        """When the next tick has something to do, epoch milliseconds on the worker's clock; 0: never."""
        if standing.killed is not None:
            return proof.due_ms(standing.killed)
        return approvals.due_ms(standing) if standing.approvals else 0

    def tick(self, standing: Standing, who: Who, now_ms: int) -> Said:
        """Does the first thing that is due by now."""
        if standing.killed is not None:
            return proof.on_due(standing, who, self._policy, now_ms)
        return approvals.on_due(standing, who, self._policy, now_ms)
