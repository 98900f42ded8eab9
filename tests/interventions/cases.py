"""Short constructors of findings, proposals and a controller."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from haltline.interventions.decide.level_selection import LevelSelection
from haltline.interventions.levels.plugins import NO_EXTENSIONS, Extensions
from haltline.interventions.state.context import Context, TaskNote
from haltline.interventions.state.intervention_history import Checkpoints
from haltline.interventions.state.session_control import SessionControl
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent, Effect, Kind
from haltline.schemas.findings import Evidence, Finding, Severity
from haltline.schemas.policy import Policy, Rule
from haltline.streams.engine.core import Core, SessionState
from haltline.streams.sessions.state_codec import decode, encode
from tests.builders import T0_MS


def proposed(second: float = 0, action: str = "delete_asset", **fields: Any) -> ActionEvent:
    result = {
        "event_id": f"e@{second:g}",
        "kind": Kind.PROPOSED,
        "session_id": "s1",
        "agent_id": "a1",
        "time": T0_MS + round(second * 1000),
        "call_id": f"c@{second:g}",
        "action": action,
    }
    return ActionEvent.model_validate(result | fields)


def found(
    severity: Severity = Severity.MEDIUM, rule: str = "error_repetition", confidence: float = 1.0, **fields: Any
) -> Finding:
    result = {
        "detector": rule,
        "code": rule,
        "severity": severity,
        "confidence": confidence,
        "reason": "seen too often",
        "evidence": (Evidence(event_id="e@first", topic="t", partition=0, offset=10), Evidence(event_id="e@last")),
    }
    return Finding(**(result | fields))


@dataclass
class Loss:
    verb: str
    target: str


@dataclass
class Deed:
    """An event as the policy reads it."""

    effect: Effect = Effect.READ
    is_attempt: bool = True
    is_result: bool = False
    refused: bool = False
    step: int = 1
    fingerprint: str = "f" * 16
    losses: Sequence[Loss] = ()
    evidence: Evidence = field(default_factory=lambda: Evidence(event_id="this"))


@dataclass
class Calls:
    actions: int = 0
    failed: int = 0
    open: dict[str, Any] = field(default_factory=dict)


@dataclass
class Session:
    """The session's state, as far as interventions look at it."""

    agent_id: str = "unknown"
    events: int = 0
    calls: Calls = field(default_factory=Calls)
    task: TaskNote | None = None
    checkpoints: Checkpoints | None = None


@dataclass
class Story:
    """One session before a controller: each `tell` is its next event with what was found on it."""

    policy: Policy = field(default_factory=Policy)
    extensions: Extensions = NO_EXTENSIONS
    standing: SessionControl = field(default_factory=SessionControl)
    session: Session = field(default_factory=Session)
    failed: list[tuple[str, BaseException]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.selection = LevelSelection(self.policy, self.extensions)

    def tell(
        self,
        second: float,
        *findings: Finding,
        rule: Rule | None = None,
        effect: Effect = Effect.READ,
        losses: Sequence[Loss] = (),
        event: ActionEvent | None = None,
        near: Callable[[], dict[str, float]] = dict,
        actions: int = 1,
    ) -> Decision | None:
        self.session.events += 1
        self.session.calls.actions += actions
        decision, shadow = self.selection.decide(
            self.standing,
            event or proposed(second),
            findings,
            {f.detector: rule or Rule() for f in findings},
            near,
            context=Context(
                self.session, Deed(effect, losses=losses), lambda name, error: self.failed.append((name, error))
            ),
        )
        return decision or shadow

    def level(self, second: float, *findings: Finding, **more: Any) -> str | None:
        """The level of the next decision by name; None: nothing was said."""
        decision = self.tell(second, *findings, **more)
        return None if decision is None else decision.level.value


class Told:
    """A session of which the core is told each event, its state stored and read again after each."""

    def __init__(self, **policy: Any) -> None:
        self.core, self.state = Core(Policy.model_validate(policy)), SessionState("s1")
        self.second, self.failed = 0, list[str]()

    def tell(self, second: float | None = None, **fields: Any) -> Decision | None:
        self.second += 1
        at = self.second if second is None else second
        effects = self.core.on_event(decode(encode(self.state)), proposed(at, **fields))
        self.state = effects.state
        self.failed += [failure.detector for failure in effects.failures]
        return effects.decision
