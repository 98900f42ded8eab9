"""Properties of an event by which the engine looks up the detectors to call."""

from enum import IntFlag


class Trait(IntFlag):
    """Properties of an event by which it is dispatched to detectors."""

    ATTEMPT = 1
    RESULT = 2
    FAILURE = 4
    """The call failed."""
    AGAIN = 8
    """The call was made before."""
    LOSS = 16
    """The call would destroy things of others, or has another irreversible effect."""
    OTHER = 32
    """Not about a call: the session's start and end, a model turn, or a duplicate."""
    BEGUN = 64
    """An attempt that was not refused."""
    DONE = 128
    """A result of a call that was not refused."""
    USAGE = 256
    """The event reports usage."""
    START = 512
    """The session's start."""
    TASK = 1024
    """The session's start, with its task."""
    TURN = 2048
    """A turn of the model."""
    MORE = 4096
    """The event has fields that are not in the schema."""
    REFUSED = 8192
    """A refused call, which was not executed: of the other traits, only `USAGE` may apply too."""
    ANYTHING = 16383


ATTEMPT, RESULT, FAILURE, AGAIN, LOSS, OTHER, BEGUN, DONE, USAGE, START, TASK, TURN, MORE, REFUSAL = (
    int(s) for s in Trait if s is not Trait.ANYTHING
)
"""The same as plain integers: looking up enum members is ten times as slow."""
