"""How much is read of one text: a budget of steps, which are the same everywhere, and not of time.

A step takes some microseconds, so that no text of `MAX_COMMAND_CHARS` costs much more than a tenth of a second, whoever
wrote it. What is left unread is said (`cut`), and what could not be read to its end is not run: see `unread_execution`.

Misses: texts of honest work that take more steps, a program of some thousand lines that removes files say, are asked
about too.
"""

MAX_STEPS = 30_000
"""Of one command line, statement or program, with all that is inside of it."""


class StepBudget:
    """The steps that may still be taken for one text."""

    __slots__ = ("cut", "left")

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.left = steps
        self.cut = False
        """Something was left out, for it was too much."""

    def take(self, steps: int = 1) -> bool:
        """Takes so many steps; False when they are not there any more."""
        self.left -= steps
        if self.left < 0:
            self.cut = True
        return self.left >= 0
