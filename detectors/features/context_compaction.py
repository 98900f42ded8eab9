"""Detects when the model's context was last condensed, from the tokens that its turns read.

A turn that reads far fewer tokens than the one before, which read many, has a condensed context: only a summary remains
of what the session had found. A small call in between, after which the context is as large as before, does not count.
"""

from haltline.schemas.events import Usage
from haltline.schemas.stored import Stored

MIN_TOKENS = 20_000
FALLS_TO = 0.6
_AS_BEFORE = 0.9
AFTERWARDS = 20
"""Actions within which earlier ones may be repeated after the context was condensed."""


class ContextCompaction(Stored):
    """The tokens that the model read. Plain JSON values: part of the session's state."""

    tokens: int = 0
    """Tokens of the last turn."""
    before: int = 0
    """Tokens of the turn before the context fell, until it is known whether it recovers; else 0."""
    last: int = 0
    """Index of the last action before the context was condensed; 0: it never was."""
    earlier: int = 0
    """The same for the time before that."""

    def note(self, usage: Usage, actions: int) -> None:
        """Record the usage of a turn; `actions`: actions of the session before it."""
        tokens = usage.input_tokens + usage.cache_read_tokens
        if not tokens:
            return
        if self.before and tokens >= _AS_BEFORE * self.before:
            self.last = self.earlier
        fell = tokens <= FALLS_TO * self.tokens and self.tokens >= MIN_TOKENS
        self.before = self.tokens if fell else 0
        if fell:
            self.earlier, self.last = self.last, actions
        self.tokens = tokens

    def lies_between(self, one: int, other: int) -> bool:
        """Return whether the context was condensed between two actions, shortly before the later one."""
        return one <= self.last < other <= self.last + AFTERWARDS
