"""What ends a process for a reason that is known."""


class KnownFailure(RuntimeError):
    """Its message tells the operator all: where, what was wanted, what came. No traceback adds to it."""
