"""What the engine knows beside the findings: asked for only where a decision is made."""

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
    """What is remembered of a session's task, cut. Plain JSON values."""

    goal: str = ""
    paths: list[str] = field(default_factory=list)
    limits: dict[str, float] = field(default_factory=dict)


def note_of(task: Task) -> TaskNote:
    """The task, cut to what is told again."""
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
    @property
    def actions(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def open(self) -> Mapping[str, _Running]: ...


class SessionView(Protocol):
    """The session's state, as far as interventions look at it."""

    @property
    def agent_id(self) -> str:
        """Whose it is, by the last event that said so."""

    @property
    def events(self) -> int:
        """How many were taken in."""

    @property
    def calls(self) -> _CallsView:
        """Its calls: how many were attempted, the index of the last that failed, and which run."""

    @property
    def task(self) -> TaskNote | None:
        """What it was asked to do."""

    @property
    def checkpoints(self) -> Checkpoints | None:
        """What the agent's side has kept."""


class _Loss(Protocol):
    @property
    def verb(self) -> str: ...
    @property
    def target(self) -> str: ...


class Deed(Protocol):
    """The event as it is read by the policy."""

    @property
    def effect(self) -> Effect:
        """What the action does."""

    @property
    def evidence(self) -> Evidence:
        """The event itself as evidence."""

    @property
    def is_attempt(self) -> bool:
        """Whether it is about to be done, or was never proposed."""

    @property
    def fingerprint(self) -> str:
        """Equal for the same call, but for what varies by itself. Only of an attempt."""

    @property
    def losses(self) -> Sequence[_Loss]:
        """What it takes away that somebody would miss."""


def _ignore(*_: object) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class Context:
    """What is known of the session and of the event."""

    session: SessionView | None = None
    deed: Deed | None = None
    failed: Callable[[str, BaseException], None] = _ignore
    """Hears when another package's strategy or intervention did what it must not."""
    judged: Callable[[str, str, float], None] = _ignore
    """Hears how far an intervention helped: its rule, its level, and 0 to 1."""

    @property
    def actions(self) -> int:
        """Attempts of the session so far."""
        return self.session.calls.actions if self.session is not None else 0

    def agent_of(self, event: ActionEvent) -> str:
        """Whose event it is: what it leaves out is known from those before, so that nobody hides by it."""
        if event.agent_id != "unknown" or self.session is None:
            return event.agent_id
        return self.session.agent_id

    @property
    def effect(self) -> Effect:
        """What the action does; without a deed, nothing."""
        return self.deed.effect if self.deed is not None else Effect.READ


NOTHING = Context()
