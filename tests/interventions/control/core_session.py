"""One session in the core, with the real codec of states."""

from typing import Any

from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent, Effect, Kind
from haltline.schemas.policy import Policy
from haltline.streams.engine.core import Core, Effects, SessionState
from haltline.streams.sessions import state_codec
from tests.builders import at, some


def decided(outcome: Effects) -> list[Decision]:
    return [decision for decision in (outcome.decision, *outcome.also) if decision is not None]


def shown(decision: Decision | None) -> tuple[str, str, str]:
    return some(decision).level.value, some(decision).code, some(decision).event_id


class CoreSession:
    """Its calls are c1, c2..., their proposals p1, p2..."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.core = Core(policy)
        self.state: SessionState | None = None
        self.calls = 0

    @property
    def known(self) -> SessionState:
        return some(self.state)

    def took(self, outcome: Effects) -> Effects:
        self.state = state_codec.decode(state_codec.encode(outcome.state))
        return outcome

    def event(self, kind: Kind, second: float, **fields: Any) -> Effects:
        usual = {"event_id": f"{kind}@{second:g}", "session_id": "s1", "agent_id": "cleaner", "time": at(second)}
        return self.took(self.core.on_event(self.state, ActionEvent(kind=kind, **(usual | fields))))

    def does(self, second: float, target: str = "a", action: str = "delete_asset", **fields: Any) -> Effects:
        """Proposes a call, and waits for the verdict."""
        self.calls += 1
        usual: dict[str, Any] = {
            "event_id": f"p{self.calls}",
            "call_id": f"c{self.calls}",
            "action": action,
            "targets": [f"asset_id={target}"],
            "effect": Effect.DESTRUCTIVE if action == "delete_asset" else None,
            "await_verdict": True,
        }
        return self.event(Kind.PROPOSED, second, **(usual | fields))

    def command(self, kind: CommandKind, second: float, by: str = "ada", **fields: Any) -> Effects:
        usual = {"command_id": f"{kind}{by}{second}", "id": "s1", "by": by, "reason": "why?", "time": at(second)}
        return self.took(self.core.on_command(self.state, Command(kind=kind, **(usual | fields))))

    def tick(self, second: float) -> list[Decision]:
        decisions: list[Decision] = []
        while 0 < self.known.due_ms <= at(second):
            decisions += decided(self.took(self.core.on_tick(self.known, at(second))))
        return decisions
