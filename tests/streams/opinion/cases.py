"""A session that reads one file repeatedly, and the answers on its first finding in doubt."""

from typing import Any, Final

from haltline.detectors import BY_ID
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.schemas.findings import Severity
from haltline.schemas.opinions import Opinion, OpinionOutcome, OpinionRules
from haltline.schemas.policy import Policy, Rule
from haltline.streams.engine.core import Core, Effects, Position, SessionState
from haltline.streams.sessions import state_codec
from tests.builders import at

SESSION: Final = "s1"


def reads(number: int, session: str = SESSION, head: str = "three lines") -> tuple[ActionEvent, ActionEvent]:
    """A call and its result, which is always the same; one in 5 seconds."""
    call = {"session_id": session, "agent_id": "reader", "call_id": f"c{number}", "action": "read_file"}
    args = {"path": "notes.txt"}
    proposed = ActionEvent(
        event_id=f"p{number}", kind=Kind.PROPOSED, time=at(5 * number), await_verdict=True, args=args, **call
    )
    completed = ActionEvent(
        event_id=f"r{number}", kind=Kind.COMPLETED, time=at(5 * number + 1), outcome=Outcome.OK,
        output_head=head, output_digest="d1", output_bytes=11, **call,
    )  # fmt: skip
    return proposed, completed


def policy(levels: dict[Severity, Level] | None = None, **opinion: Any) -> Policy:
    """`repetition` alone, in doubt from the third to the eleventh of the same call; a hint each 5 seconds."""
    rules = {name: Rule(enabled=name == "repetition") for name in BY_ID}
    rules["repetition"] = Rule(settings={"read": (3, 12, 16)}, levels=levels or {})
    return Policy(rules=rules, cooldown_s=0, opinion=OpinionRules(rules=("repetition",), **opinion))


def answer(decision: Decision, outcome: OpinionOutcome = OpinionOutcome.RUNAWAY, **fields: Any) -> Opinion:
    about: dict[str, Any] = {
        "opinion_id": f"o-{decision.decision_id}", "decision_id": decision.decision_id, "event_id": decision.event_id,
        "session_id": decision.session_id, "detector": decision.detector, "time": decision.time, "outcome": outcome,
        "why": "the same file is read again", "tell": "Say what you look for.", "model": "judge-1",
    }  # fmt: skip
    return Opinion(**(about | fields))


class Session:
    """One session through the core, its state through the real codec after every step."""

    def __init__(self, policy: Policy) -> None:
        self.core = Core(policy)
        self.state: SessionState | None = None
        self.offset = 0
        self.decisions: list[Decision] = []

    def __call__(self, given: ActionEvent | Opinion) -> Effects:
        if isinstance(given, Opinion):
            effects = self.core.on_opinion(self.state, given, Position("haltline.opinions", 0, self.offset))
        else:
            effects = self.core.on_event(self.state, given, Position("haltline.actions", 0, self.offset))
        self.offset += 1
        self.state = state_codec.decode(state_codec.encode(effects.state))
        if effects.decision is not None:
            self.decisions.append(effects.decision)
        return effects

    def read(self, *numbers: int) -> list[str]:
        """The levels of the calls, with their code where there is one."""
        levels = []
        for number in numbers:
            effects = [self(event) for event in reads(number)]
            said = [e.decision for e in effects if e.decision is not None]
            levels += [f"{d.level.value} {d.code}" for d in said if d.code != "allowed"] or ["ALLOW"]
        return levels

    @property
    def requested(self) -> list[Decision]:
        return [decision for decision in self.decisions if decision.opinion is not None]
