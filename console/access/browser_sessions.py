"""Sessions of browsers: a cookie that stands for a key, and proof that a request comes from the console's page.

The cookie is a random token. Only its digest is kept, in this process: a restart ends every session, and so does a
change of the key file, which needs a restart. A request that changes something needs the session's CSRF token in a
header, which no other site can read or send, and must not name another site as its origin. A key in `Authorization`
needs neither, as no browser sends one automatically.
"""

import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from fastapi import HTTPException, Request, Response

from haltline.console.access.keys import Who, digest_of

CSRF_HEADER: Final = "X-CSRF-Token"
LASTS_S: Final = 12 * 3600
"""Lifetime of a session in seconds, a shift."""
IDLE_S: Final = 2 * 3600
"""Idle timeout in seconds, from the last request."""
_MAX: Final = 10_000
"""Sessions at a time; a further one ends the session that was idle the longest."""
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True)
class Session:
    """A signed-in browser."""

    who: Who
    csrf: str
    begun_s: float


class BrowserSessions:
    """All sessions of one console. Thread safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = _MAX) -> None:
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[Session, float]] = OrderedDict()
        """By digest of the token: the session and its last request; the longest idle first."""

    def begin(self, who: Who) -> str:
        """Start a session and return the token for its cookie."""
        token, now_s = secrets.token_urlsafe(32), self._clock()
        with self._lock:
            self._known[digest_of(token)] = (Session(who, secrets.token_urlsafe(32), now_s), now_s)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return token

    def find(self, token: str) -> Session | None:
        """The session of a token; None: it does not exist, or has ended."""
        digest, now_s = digest_of(token), self._clock()
        with self._lock:
            session, last_s = self._known.get(digest, (None, now_s))
            if session is None:
                return None
            if now_s - session.begun_s > LASTS_S or now_s - last_s > IDLE_S:
                del self._known[digest]
                return None
            self._known[digest] = (session, now_s)
            self._known.move_to_end(digest)
            return session

    def end(self, token: str) -> None:
        """End a session if it exists."""
        with self._lock:
            self._known.pop(digest_of(token), None)


def session_of(request: Request) -> Session | None:
    """The session of a request, or None.

    Raises HTTPException (403) for a request that changes something and lacks the proof that it comes from our pages.
    """
    known: BrowserSessions | None = getattr(request.app.state, "sessions", None)
    token = token_of(request)
    session = known.find(token) if known is not None and token is not None else None
    if session is not None and request.method not in _SAFE:
        require_same_origin(request)
        if not hmac.compare_digest(request.headers.get(CSRF_HEADER, "").encode(), session.csrf.encode()):
            raise HTTPException(
                403, f"{CSRF_HEADER}: expected that of the session, got another or none; reload the page"
            )
    return session


def require_same_origin(request: Request) -> None:
    """Raises HTTPException (403) if the browser reports that another site made the request."""
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    if site is not None and site not in ("same-origin", "none"):
        raise HTTPException(403, f"Sec-Fetch-Site: expected same-origin, got {site:.40}")
    # For a form, a browser may send "null" under our own Referrer-Policy; then Sec-Fetch-Site has decided already.
    if origin not in (None, "null") and urlsplit(origin).netloc != request.headers.get("Host"):
        raise HTTPException(403, "Origin: expected that of this console, got another")


def token_of(request: Request) -> str | None:
    """The token in the cookie."""
    return request.cookies.get(_name(request))


def start_session(request: Request, response: Response, who: Who) -> None:
    """Start a session, in place of the one that the request has.

    The browser sends its cookie to this host only, and scripts cannot read it.
    """
    sessions: BrowserSessions = request.app.state.sessions
    if (old := token_of(request)) is not None:
        sessions.end(old)
    token = sessions.begin(who)
    response.set_cookie(
        _name(request), token, max_age=LASTS_S, path="/", secure=_is_secure(request), httponly=True, samesite="strict"
    )


def clear_cookie(request: Request, response: Response) -> None:
    """Delete the cookie."""
    response.delete_cookie(_name(request), path="/", secure=_is_secure(request), httponly=True, samesite="strict")


def _name(request: Request) -> str:
    # With the prefix, a browser accepts it over TLS and from this host only. Ports share cookies, so without it two
    # consoles on one host would end each other's sessions.
    port = f"-{request.url.port}" if request.url.port else ""
    return ("__Host-haltline" if _is_secure(request) else "haltline") + port


def _is_secure(request: Request) -> bool:
    return request.url.scheme == "https"


def local_path(path: str) -> str:
    """A path of this console; any other text gives the first page."""
    # A browser reads "//host" and "/\host" as another host, and ignores tabs and line breaks.
    if not path.startswith("/") or path[1:2] in ("/", "\\") or any(ord(sign) <= ord(" ") for sign in path):
        return "/fleet"
    return path
