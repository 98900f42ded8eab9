"""HTTP POST requests of channels, and the interpretation of the answer."""

import logging
import time
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
    """Posts JSON to one address, which itself is a secret. Redirects are not followed."""

    def __init__(self, url: str, secrets: Secrets, timeout_s: float) -> None:
        try:
            address = httpx2.URL(url)
        except (httpx2.InvalidURL, TypeError):  # its text contains the address
            address = httpx2.URL("")
        if address.scheme not in ("http", "https") or not address.host:
            raise ValueError("expected an address with https://, got something else")
        self._url = address
        self._secrets = secrets
        self._client = httpx2.Client(timeout=timeout_s)

    def post(self, body: bytes, headers: dict[str, str]) -> None:
        """Post it. Raises Failed when the request was not accepted."""
        try:
            answer = self._client.post(self._url, content=body, headers=headers)
        except httpx2.HTTPError as error:
            raise Failed(self._secrets.without(f"no answer: {type(error).__name__}: {error}"), again=True) from None
        _require_accepted(answer, self._secrets)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _require_accepted(answer: httpx2.Response, secrets: Secrets) -> None:
    """Raise Failed for an unsuccessful answer."""
    status = answer.status_code
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return
    body = secrets.without(" ".join(answer.text.split()))[:_SHOWN_CHARS]
    raise Failed(
        f"expected an answer of success, got {status}: {body}",
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
