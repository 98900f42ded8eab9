"""What ends a process for a reason that is known."""


class KnownFailure(RuntimeError):
    """Its message tells the operator all: where, what was expected, what was given. No traceback adds to it."""
