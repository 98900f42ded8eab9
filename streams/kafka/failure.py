"""The exception that ends a process for a known reason."""


class KnownFailure(RuntimeError):
    """A failure whose message is complete: where, what was expected, what was given.

    It is shown without a traceback.
    """
