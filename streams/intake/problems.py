"""What is answered in place of what was asked for."""


class Bad(Exception):
    """What was sent cannot be used: an HTTP status, and where, what was expected and what was given."""

    def __init__(self, status: int, *problems: str) -> None:
        super().__init__(*problems)
        self.status = status
        self.problems = problems


class Busy(Exception):
    """As many requests are answered as there is room for."""
