"""Context from the engine besides the findings, evaluated only when a decision is made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from haltline.interventions.state.intervention_history import Checkpoints
from haltline.schemas.events import ActionEvent, Effect, Task
from haltline.schemas.findings import Evidence

MAX_GOAL_CHARS = 400
MAX_PATHS = 8
MAX_PATH_CHARS = 120
MAX_LIMITS = 8


@dataclass
class TaskNote:
    """The stored part of a session's task, truncated. Plain JSON values."""

    goal: str = ""
    paths: list[str] = field(default_factory=list)
    limits: dict[str, float] = field(default_factory=dict)


def note_of(task: Task) -> TaskNote:
    """Return the task, truncated for later reminders."""
    goal = " ".join(task.goal.split())
    return TaskNote(
        goal=goal if len(goal) <= MAX_GOAL_CHARS else f"{goal[: MAX_GOAL_CHARS - 3]}...",
        paths=[path[:MAX_PATH_CHARS] for path in task.expected_paths[:MAX_PATHS]],
        limits=dict(list(task.limits.items())[:MAX_LIMITS]),
    )


class _Running(Protocol):
    @property
    def action(self) -> str: ...


class _CallsView(Protocol):
    actions: int
    failed: int

    @property
    def open(self) -> Mapping[str, _Running]: ...


class SessionView(Protocol):
    """The part of the session's state that interventions use."""

    agent_id: str
    """The session's agent, by the last event with one."""
    events: int
    """The number of events processed."""
    task: TaskNote | None
    checkpoints: Checkpoints | None
    """The checkpoints saved by the agent's side."""

    @property
    def calls(self) -> _CallsView:
        """Its calls: how many were attempted, the index of the last that failed, and those that run."""


class _Loss(Protocol):
    @property
    def verb(self) -> str: ...
    @property
    def target(self) -> str: ...


class Deed(Protocol):
    """The event as the policy reads it."""

    is_attempt: bool
    """Whether it is about to be executed, or was never proposed."""
    is_result: bool
    step: int
    """Index of the first call of its turn."""
    refused: bool
    """Whether it ended without being executed."""

    @property
    def effect(self) -> Effect:
        """The effect of the action."""

    @property
    def evidence(self) -> Evidence:
        """The event itself as evidence."""

    @property
    def fingerprint(self) -> str:
        """Equal for the same call, without varying parts. Only for an attempt."""

    @property
    def losses(self) -> Sequence[_Loss]:
        """What the call destroys."""


def _ignore(*_: object) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Context:
    """The known facts about the session and the event."""

    session: SessionView | None = None
    deed: Deed | None = None
    failed: Callable[[str, BaseException], None] = _ignore
    """Receives errors of other packages' strategies and interventions."""
    judged: Callable[[str, str, float], None] = _ignore
    """Receives how far an intervention helped: its rule, its level, and 0 to 1."""

    @property
    def actions(self) -> int:
        """Attempts of the session so far."""
        return self.session.calls.actions if self.session is not None else 0

    def agent_of(self, event: ActionEvent) -> str:
        """Return the agent of an event; one without an agent gets that of the earlier events, so that none can hide."""
        if event.agent_id != "unknown" or self.session is None:
            return event.agent_id
        return self.session.agent_id

    @property
    def effect(self) -> Effect:
        """The effect of the action; READ without a deed."""
        return self.deed.effect if self.deed is not None else Effect.READ


NOTHING = Context()
