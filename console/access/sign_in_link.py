"""A link that signs in one person, once, soon after the console was started: for the person who started it.

The link is `/sign-in#token=...`. A browser does not send a fragment to a server, so the token is in no request log, and
a preview of the link does not use it up. A script of the page removes it from the address and posts it from the
console's own origin, like the form for keys. A browser that is already signed in keeps its session. Only the token's
digest is stored, so that a process that starts the console can create the link.
"""

import hmac
import secrets
import threading
import time
from collections.abc import Callable
from typing import Final

from haltline.console.access.keys import Who, digest_of

LASTS_S: Final = 600
"""Lifetime of the link in seconds, from the console's start."""


def new_token() -> str:
    """A token of 256 random bits."""
    return secrets.token_urlsafe(32)


def link_of(address: str, token: str) -> str:
    """The link, at the console's address."""
    return f"{address}/sign-in#token={token}"


class SignInLink:
    """The one link of a console. Thread safe."""

    def __init__(self, digest: str, who: Who, clock: Callable[[], float] = time.monotonic) -> None:
        self._digest = digest
        self._who = who
        self._clock = clock
        self._until_s = clock() + LASTS_S
        self._lock = threading.Lock()
        self._used = False

    def take(self, token: str) -> Who | None:
        """Use the token once. Returns its user; None: unknown, already used, or expired."""
        if not hmac.compare_digest(digest_of(token), self._digest):
            return None
        with self._lock:
            if self._used or self._clock() > self._until_s:
                return None
            self._used = True
        return self._who
