"""When the model's context was condensed last, as far as what its turns read tells.

A turn that reads much less than the one before it, which read much, has a condensed context: what the session had
found before is gone but for a summary. A small call in between, after which the context is what it was, is none.
"""

from msgspec import Struct

from haltline.schemas.events import Usage

MIN_TOKENS = 20_000
FALLS_TO = 0.6
_AS_BEFORE = 0.9
AFTERWARDS = 20
"""Actions in which what was done before the context was condensed may be done once more."""


class ContextCompaction(Struct):
    """What the model read. Plain JSON values: part of the session's state."""

    tokens: int = 0
    """In the last turn."""
    before: int = 0
    """In the turn before the context fell, while nobody knows whether it will be as before; else 0."""
    last: int = 0
    """Index of the last action before the context was condensed; 0: it never was."""
    earlier: int = 0
    """The same of the time before that."""

    def note(self, usage: Usage, actions: int) -> None:
        """Takes in what a turn used; `actions`: those of the session before it."""
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
        """Whether the context was condensed between two actions, not long before the later one."""
        return one <= self.last < other <= self.last + AFTERWARDS
