"""The known properties of a tool."""

from dataclasses import dataclass

from haltline.schemas.events import Effect
from haltline.schemas.policy import Reading
from haltline.schemas.tools import Operation


@dataclass(frozen=True, slots=True)
class KnownTool:
    """The known properties of a tool. Not a pydantic model, since it is read a dozen times per event."""

    effect: Effect | None = None
    """None: the effect is unknown."""
    reading: Reading = Reading.PLAIN
    loop_key: tuple[str, ...] | None = None
    """The arguments that identify equal calls, if the policy declares them."""
    use: Operation | None = None
    """The described operation that the call is one of: what its arguments mean."""
    program: str = ""
    """The program whose arguments the tool takes, if the tool is named after one."""
