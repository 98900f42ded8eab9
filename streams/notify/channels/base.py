"""The interface of channels."""

from pathlib import Path
from typing import Any, Protocol

from haltline.streams.notify.notification_text import Message


class Failed(Exception):
    """A failed attempt: why, without secrets, and whether a retry may succeed."""

    def __init__(self, detail: str, *, again: bool, after_s: float | None = None) -> None:
        super().__init__(detail)
        self.detail = detail[:500]
        self.again = again
        self.after_s = after_s
        """The seconds for which the receiver wants no retry."""


class ChannelSender(Protocol):
    """Sends messages to one receiver."""

    def send(self, message: Any) -> str | None:
        """Send a message (`Message`, an actuator `Order`), and return when the receiver has accepted it. Raises Failed.

        Returns the answer, if it is to be recorded.
        """

    def close(self) -> None:
        """Close the connections."""


class Repeating(ChannelSender, Protocol):
    """A Sender to a receiver that drops what is not repeated."""

    repeat_s: float

    def repeat(self, messages: list[Message]) -> None:
        """Send the open incidents again. Raises Failed."""


class Secrets:
    """Secrets, which must not be in logs and errors."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def read(self, file: Path) -> str:
        """Return the text of a file, which is a secret from now on. Raises ValueError for an empty one, OSError."""
        return self.lines(file)[0]

    def lines(self, file: Path) -> list[str]:
        """Return its lines, each a secret, like `read`."""
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        if not lines:
            raise ValueError(f"{file}: expected a secret, got an empty file")
        self._known.update(lines)
        return lines

    def without(self, text: str) -> str:
        """Return the text with all secrets blacked out."""
        for secret in sorted(self._known, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text
