"""Descriptions by clients in other languages, which have the complete values; secrets are removed already.

The shape is that of the wire: digests of complete values, sizes in bytes, the beginning of a text. The text is searched
for secrets once more.
"""

from dataclasses import dataclass

from haltline.schemas.events import Novelty, Outcome


@dataclass(frozen=True, slots=True)
class CutArguments:
    """Arguments that the client has truncated."""

    digest: str
    """The digest of the complete arguments."""
    unread_from: int
    """Texts and lists are truncated after this number of characters or items."""


@dataclass(frozen=True, slots=True)
class DescribedOutput:
    """The output of a call."""

    digest: str | None
    """The digest of the complete output; None: it cannot be compared."""
    size_bytes: int
    head: str | None
    """The beginning of the output; None: not published."""
    novelty: Novelty | None = None
    """New words of the complete output; None: not reported."""
    repeats: int | None = None
    """For a model turn: how often the complete output repeats one passage in a row; None: not reported."""


class DescribedError(Exception):
    """The error of a failed call."""

    def __init__(self, outcome: Outcome, text: str, novelty: Novelty | None = None) -> None:
        super().__init__(text)
        self.outcome = outcome
        self.novelty = novelty
        """New words of the complete text; None: not reported, so it is counted here."""
