"""What a client in another language has described itself, as it alone has seen the whole; without secrets already.

The shape is that of the wire: digests of the whole, sizes in bytes, the beginning of a text. What is shown is looked
through for secrets once more.
"""

from dataclasses import dataclass

from haltline.schemas.events import Novelty, Outcome


@dataclass(frozen=True, slots=True)
class CutArguments:
    """Arguments of which a part was left out."""

    digest: str
    """Of the whole."""
    unread_from: int
    """Texts and lists are cut behind so many characters or items."""


@dataclass(frozen=True, slots=True)
class DescribedOutput:
    """What a call returned."""

    digest: str | None
    """Of the whole; None: of this value nobody can say that it equals another."""
    size_bytes: int
    head: str | None
    """Its beginning; None: nothing is shown."""
    novelty: Novelty | None = None
    """What is new in the whole; None: the client does not say."""


class DescribedError(Exception):
    """How a call failed."""

    def __init__(self, outcome: Outcome, text: str, novelty: Novelty | None = None) -> None:
        super().__init__(text)
        self.outcome = outcome
        self.novelty = novelty
        """What is new in the whole text; None: the client does not say, and so it is counted here."""
