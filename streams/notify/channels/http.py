"""HTTP requests of channels and actuators, and the interpretation of the answer."""

import logging
import ssl
import time
from collections.abc import Collection
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

import httpx2

from haltline.streams.notify.channels.base import Failed, Secrets

_AGAIN: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
_MAX_WAIT_S: Final = 3600.0
_SHOWN_CHARS: Final = 200

logging.getLogger("httpx2").setLevel(logging.WARNING)  # lower levels log addresses, which are secrets


class Http:
    """Requests with JSON to one address, which itself is a secret, or to several. Redirects are not followed.

    `trusted`: other authorities than the system's.
    """

    def __init__(
        self, url: str | None, secrets: Secrets, timeout_s: float, *, trusted: ssl.SSLContext | None = None
    ) -> None:
        self._url = None if url is None else _address(url)
        self._secrets = secrets
        self._client = httpx2.Client(timeout=timeout_s, verify=True if trusted is None else trusted)

    def post(self, body: bytes, headers: dict[str, str]) -> None:
        """Post it. Raises Failed when the request was not accepted."""
        self._call("POST", self._url or "", body, headers, ())

    def call(self, method: str, url: str, body: bytes, headers: dict[str, str], *, accepts: Collection[int]) -> str:
        """Return the answer's status and beginning, if that is 2xx or in `accepts`. Raises Failed."""
        return self._call(method, _address(url), body, headers, accepts)

    def _call(
        self, method: str, url: httpx2.URL | str, body: bytes, headers: dict[str, str], accepts: Collection[int]
    ) -> str:
        try:
            answer = self._client.request(method, url, content=body, headers=headers)
        except httpx2.HTTPError as error:
            raise Failed(self._secrets.without(f"no answer: {type(error).__name__}: {error}"), again=True) from None
        return _accepted(answer, self._secrets, accepts)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _address(url: str) -> httpx2.URL:
    try:
        address = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError):  # its text contains the address
        address = httpx2.URL("")
    if address.scheme not in ("http", "https") or not address.host:
        raise ValueError("expected an address with https://, got something else")
    return address


def _accepted(answer: httpx2.Response, secrets: Secrets, accepts: Collection[int]) -> str:
    """Return an answer in one line. Raises Failed for an unsuccessful one."""
    status = answer.status_code
    text = f"{status}: {secrets.without(' '.join(answer.text.split()))[:_SHOWN_CHARS]}".removesuffix(": ")
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES or status in accepts:
        return text
    raise Failed(
        f"expected an answer of success, got {text}",
        again=status in _AGAIN or status >= HTTPStatus.INTERNAL_SERVER_ERROR,
        after_s=_seconds(answer.headers.get("retry-after")),
    )


def _seconds(retry_after: str | None) -> float | None:
    """Return the seconds of a `Retry-After`, given as a number or a date."""
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(retry_after).timestamp() - time.time()
        except ValueError:
            return None
    return min(max(0.0, seconds), _MAX_WAIT_S)
