"""The links of notifications to the console. A link to an approval is signed and expires; it only opens the page.

Its user still has to sign in and answer there: neither a program that previews links nor an agent that reads the chat
can release anything with it. The signature prevents forged links.
"""

import time
from pathlib import Path
from typing import Final
from urllib.parse import quote

from itsdangerous import BadSignature, URLSafeSerializer

from haltline.schemas.incidents import IncidentRecord
from haltline.streams.notify.config import Config

OPENS_AT: Final = "/open/approvals"
_SALT: Final = "haltline-approval-link"
_LEAST_CHARS: Final = 32


class BadLink(ValueError):
    """A link was not signed with this key, or has expired."""


class LinkKey:
    """Signs links to approvals, and checks them."""

    def __init__(self, key: str) -> None:
        self._signer = URLSafeSerializer(key, salt=_SALT)

    @classmethod
    def read(cls, file: Path) -> "LinkKey":
        """Read the key from a file with at least 32 random characters. Raises ValueError, OSError."""
        key = file.read_text(encoding="utf-8").strip()
        if len(key) < _LEAST_CHARS:
            raise ValueError(f"{file}: expected a key of at least {_LEAST_CHARS} characters, got {len(key)}")
        return cls(key)

    def token(self, request_id: str, until_ms: int) -> str:
        """Return a token that opens the approval until then."""
        return str(self._signer.dumps([request_id, until_ms // 1000]))

    def request_of(self, token: str, now_s: float | None = None) -> str:
        """Return the id of a token's approval request. Raises BadLink."""
        try:
            request_id, until_s = self._signer.loads(token)
        except (BadSignature, ValueError, TypeError):
            raise BadLink("expected a link that haltline signed, got another") from None
        if (time.time() if now_s is None else now_s) > until_s:
            raise BadLink("expected a link that is still valid, got one that has expired")
        return str(request_id)


class Links:
    """The link targets of one notifier."""

    def __init__(self, console: str | None, key: LinkKey | None, lasts_ms: int) -> None:
        self._console = None if console is None else console.rstrip("/")
        self._key = key
        self._lasts_ms = lasts_ms

    def session(self, record: IncidentRecord) -> str | None:
        """Return the link to the session's page."""
        if self._console is None or record.session_id is None:
            return None
        return f"{self._console}/sessions/{quote(record.session_id, safe='')}"

    def approval(self, record: IncidentRecord, at_ms: int) -> str | None:
        """Return the link to the open approval request; always the same for a record with the same time."""
        if self._console is None or record.request_id is None:
            return None
        if self._key is None:
            return f"{self._console}/approvals/{quote(record.request_id, safe='')}"
        return f"{self._console}{OPENS_AT}?token={self._key.token(record.request_id, at_ms + self._lasts_ms)}"


def links_of(config: Config) -> Links:
    """Return the links of a configuration. Raises ValueError when the key's file cannot be used."""
    try:
        key = None if config.link_key_file is None else LinkKey.read(config.link_key_file)
    except (OSError, ValueError) as error:
        raise ValueError(f"link_key_file: {error}") from None
    return Links(config.console, key, round(config.link_lasts.total_seconds() * 1000))
