"""The messages of the local service (`haltline agent`): requests of an agent's side, and answers. docs/service.md.

The words are those of the Python guard: a call is proposed, answered, and ended; a turn of the model is reported.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, field_validator
from pydantic.json_schema import models_json_schema

from haltline.schemas.events import Effect, Outcome, Task, Usage
from haltline.schemas.record import Id, Part

PROTOCOL: Final = 1
"""The version of these messages. A service answers the one before it, too."""
LEASE_S: Final = 3600
"""The seconds after which a session without requests or a connection ends, unless `begin` says otherwise."""

Verdict = Literal["allow", "change", "wait", "reinforce", "roll_back", "refuse", "hold", "stop", "pending"]
"""What an agent does with a call or a turn:

allow      go on
change     go on with other arguments: `put` replaces, `remove` takes away
wait       ask again after `wait_ms`: the call repeats a poll that is slowed
reinforce  go on, and give the model `hints` now: they repeat its task
roll_back  do not; the service has restored an earlier state of the files, as `message` says
refuse     do not; `message` is for the model. With `request_id`, a person may allow it
hold       do not; the session is held: the model reports, and its turn ends
stop       do not; the session was killed: end the run
pending    ask again with the same `call_id`: a person has not answered within `wait_s`
"""


class Begin(Part):
    """A session begins, or goes on, in this client."""

    protocol: int = PROTOCOL
    client: Annotated[str, Field(max_length=256)] = ""
    """Its name and version, for the log."""
    session_id: Id | None = None
    """None: a new session."""
    agent_id: Id | None = None
    mission_id: Id | None = None
    parent_session_id: Id | None = None
    root_session_id: Id | None = None
    ancestors: Annotated[tuple[Id, ...], Field(max_length=64)] = ()
    mode: Literal["async", "blocking", "local"] | None = None
    """None: the service's."""
    task: Task | None = None
    prompt: str | None = None
    """What the user asks for; it is not published."""
    reports: bool = False
    """Calls are proposed after they were made, as a log tells them: none waits, or is refused for lack of a verdict."""
    checkpoints: str | None = None
    """The folder whose files a roll-back restores, on the service's machine; a git work tree or any other folder."""
    lease_s: Annotated[float, Field(ge=1, le=86_400)] = LEASE_S


class _OfSession(Part):
    token: Annotated[str, Field(min_length=1, max_length=256)]
    """What `begin` returned."""


class Propose(_OfSession):
    """A call is about to be made. Sent again with its `call_id`, it is the same call."""

    call_id: Id | None = None
    """None: a new one, which the answer names."""
    action: Annotated[str, Field(min_length=1, max_length=512)]
    args: dict[str, Any] | None = None
    targets: Annotated[tuple[str, ...], Field(max_length=1000)] = ()
    effect: Effect | None = None
    """Raises the effect known from the name."""
    loop_key: str | None = None
    """Calls of this action with an equal key are the same call in a loop."""
    mode: Literal["async", "blocking"] | None = None
    folder: str = ""
    """Where the call runs, on the service's machine; empty: unknown, or elsewhere."""
    wait_s: Annotated[float, Field(gt=0, le=3600)] | None = None
    """Answer `pending` after so long. None: wait for the verdict, and for a person as long as the request lasts."""


class End(_OfSession):
    """A call has ended, or is taken back while its verdict is awaited. Sent again, it changes nothing."""

    call_id: Id
    output: Any = None
    error: str | None = None
    outcome: Literal[Outcome.OK, Outcome.ERROR, Outcome.TIMEOUT, Outcome.UNKNOWN] | None = None
    """None: `error` if there is one, else `ok`."""
    children: Annotated[tuple[Id, ...], Field(max_length=1000)] = ()
    """Sessions that were stopped with this one, if it was killed."""


class Turn(_OfSession):
    """Before a turn of the model (`asks`), after one (`usage`, `output`), or a new prompt of the user (`prompt`)."""

    asks: bool = False
    prompt: str | None = None
    usage: Usage | None = None
    output: str | None = None
    keep: Id | None = None
    """Save the files under this id, for a roll-back to restore."""

    @field_validator("usage", mode="before")
    @classmethod
    def _known(cls, usage: Any) -> Any:
        """Refuse other names, such as those of a model's API, whose counts would be ignored."""
        unknown = sorted(map(str, usage.keys() - Usage.model_fields)) if isinstance(usage, dict) else []
        if unknown:
            raise ValueError(f"expected fields of {', '.join(Usage.model_fields)}, got {', '.join(unknown)!r:.80}")
        return usage


class Close(_OfSession):
    """The client is done with its session."""


class Answer(Part):
    """The answer to `propose` and `turn`."""

    answer: Verdict
    call_id: str | None = None
    code: str | None = None
    message: str | None = None
    """For the model."""
    hints: str | None = None
    """For the model, with the call's result."""
    put: dict[str, Any] | None = None
    remove: tuple[str, ...] | None = None
    wait_ms: int | None = None
    limits: dict[str, float] | None = None
    request_id: str | None = None
    expires: int | None = None
    kept: bool | None = None
    """Whether the files were saved."""


class Begun(Part):
    """The answer to `begin`."""

    token: str
    session_id: str
    protocol: int
    release: str
    """Of haltline."""
    answer: Literal["allow", "hold", "stop"]
    """Whether the session is stopped already, by an earlier process or an operator."""
    code: str | None = None
    message: str | None = None


class Order(Part):
    """What a client is told without asking: its session is held or killed, or goes on."""

    order: Literal["hold", "stop", "go_on"]
    session_id: str
    code: str | None = None
    message: str | None = None


VERBS: Final[dict[str, type[Part]]] = {"begin": Begin, "propose": Propose, "end": End, "turn": Turn, "close": Close}
"""The model of each verb's fields."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of all messages, by the names of their models under `$defs`."""
    models: list[type[Part]] = [*VERBS.values(), Begun, Answer, Order]
    _, schema = models_json_schema([(model, "validation") for model in models], title="haltline agent")
    return schema
