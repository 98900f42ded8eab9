"""A budget of steps, which limits how much of one text is read, independent of the machine's speed.

A step takes some microseconds, so that no text of `MAX_COMMAND_CHARS` takes much more than a tenth of a second.
`cut` reports that something was left unread; the rule `unread_execution` then stops the execution.

Misses: long legitimate texts, such as a program of some thousand lines that removes files, also exceed the budget.
"""

MAX_STEPS = 30_000
"""For one command line, statement or program, including everything inside it."""


class StepBudget:
    """The remaining steps for one text."""

    __slots__ = ("cut", "left")

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.left = steps
        self.cut = False
        """A part of the text was left unread."""

    def take(self, steps: int = 1) -> bool:
        """Take some steps; return False if they are used up."""
        self.left -= steps
        if self.left < 0:
            self.cut = True
        return self.left >= 0
