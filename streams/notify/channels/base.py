"""What a channel is to whoever sends through it."""

from pathlib import Path
from typing import Protocol

from haltline.streams.notify.notification_text import Change, Message


class Failed(Exception):
    """An attempt that failed: why, without secrets, and whether another one may do better."""

    def __init__(self, detail: str, *, again: bool, after_s: float | None = None) -> None:
        super().__init__(detail)
        self.detail = detail[:500]
        self.again = again
        self.after_s = after_s
        """How long the receiver wants to be left alone."""


class Sender(Protocol):
    """Sends messages to one receiver."""

    def send(self, message: Message) -> None:
        """Returns when the receiver has accepted it. Raises Failed."""

    def close(self) -> None:
        """Gives back connections."""


class Repeating(Sender, Protocol):
    """One whose receiver forgets what is not repeated."""

    repeat_s: float

    def repeat(self, changes: list[Change]) -> None:
        """Says what is open. Raises Failed."""


class Secrets:
    """What must be in no log and no error."""

    def __init__(self) -> None:
        self._known: list[str] = []

    def read(self, file: Path) -> str:
        """The text of a file, known as a secret from now on. Raises ValueError for an empty one, OSError."""
        return self.lines(file)[0]

    def lines(self, file: Path) -> list[str]:
        """Its lines, each a secret; as `read`."""
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        if not lines:
            raise ValueError(f"{file}: expected a secret, got an empty file")
        self._known += lines
        return lines

    def without(self, text: str) -> str:
        """The text with each of them blacked out."""
        for secret in sorted(self._known, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text
