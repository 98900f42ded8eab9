"""What is known of a tool."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from haltline.schemas.events import Effect
from haltline.schemas.policy import Reading

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class KnownTool:
    """What is known of a tool: no pydantic model, since it is looked at a dozen times for each event."""

    effect: Effect | None = None
    """None: nothing is known of what it does."""
    reading: Reading = Reading.PLAIN
    loop_key: tuple[str, ...] | None = None
    """The arguments in which the same call is equal, where the policy says it."""
    program: str = ""
    """The program whose arguments it is given, where it is named after one."""
