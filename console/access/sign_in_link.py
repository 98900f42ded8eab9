"""A link that signs one person in, once, soon after the console was started: for whoever started it.

The link is `/sign-in#token=...`. A browser sends no fragment to a server, so the token stands in no log of requests and
no preview of the link uses it up. A script of the page takes it out of the address and posts it from the console's own
origin, as the form of keys is posted; somebody who is signed in already is not signed in as another. Of the token only
the digest is known here, so that a process that starts the console can make the link.
"""

import hmac
import secrets
import threading
import time
from collections.abc import Callable
from typing import Final

from haltline.console.access.keys import Who, digest_of

LASTS_S: Final = 600
"""How long the link opens the console, from its start."""


def new_token() -> str:
    """A token of 256 random bits."""
    return secrets.token_urlsafe(32)


def link_of(address: str, token: str) -> str:
    """The link, at the console's address."""
    return f"{address}/sign-in#token={token}"


class SignInLink:
    """The one link of a console. For any thread."""

    def __init__(self, digest: str, who: Who, clock: Callable[[], float] = time.monotonic) -> None:
        self._digest = digest
        self._who = who
        self._clock = clock
        self._until_s = clock() + LASTS_S
        self._lock = threading.Lock()
        self._used = False

    def take(self, token: str) -> Who | None:
        """The user that the token signs in; the token is then invalid. None: unknown, already used, or expired."""
        if not hmac.compare_digest(digest_of(token), self._digest):
            return None
        with self._lock:
            if self._used or self._clock() > self._until_s:
                return None
            self._used = True
        return self._who
