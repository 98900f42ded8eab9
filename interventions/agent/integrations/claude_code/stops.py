"""The stop of a session. Imports nothing: `haltline hook` reads it before an agent's call."""

from typing import NamedTuple


class Stop(NamedTuple):
    """The stop of a session."""

    text: str
    """Its cause, for the user and the model."""
    is_kill: bool = True
    """False: every call is refused until an approval, or a new prompt of its user if that suffices."""
    may_report: bool = False
    """It is held for lack of progress: the model reads why, and has a turn for its report."""
    is_local: bool = False
    """Whether it was decided on this machine, so that its user can release it."""

    def text_for(self, session_id: str) -> str:
        """Return the text with the command that releases the session, if its user may do so."""
        command = "haltline hook release"
        if not self.is_local or command in self.text:
            return self.text
        return f"{self.text} To let it go on: {command} {session_id}"


class Earlier(NamedTuple):
    """What an earlier process has stored of a session."""

    state: bytes | None = None
    stop: Stop | None = None
