"""The call of an actuator, signed if it has a secret."""

import ssl
from datetime import UTC, datetime

from haltline.streams.notify import config
from haltline.streams.notify.channels.base import Failed, Secrets
from haltline.streams.notify.channels.http import Http
from haltline.streams.notify.channels.webhook import signed, signers_of
from haltline.streams.notify.orders import BadValue, Order


class Actuator:
    """Calls one actuator."""

    def __init__(self, actuator: config.Actuator, secrets: Secrets) -> None:
        """Read its files. Raises ValueError, OSError."""
        self._secrets = secrets
        self._token_file, self._accepts = actuator.token_file, actuator.accepts
        if actuator.token_file is not None:
            secrets.read(actuator.token_file)
        self._signers = () if actuator.secret_file is None else signers_of(actuator.secret_file, secrets)
        trusted = None if actuator.ca_file is None else ssl.create_default_context(cafile=str(actuator.ca_file))
        self._http = Http(None, secrets, actuator.timeout.total_seconds(), trusted=trusted)

    def send(self, order: Order) -> str:
        """Call it, with the same id at each attempt. Returns what it answered. Raises Failed."""
        try:
            call = order.call()
            headers = {**call.headers, **signed(self._signers, order.message_id, call.body, datetime.now(UTC))}
            if self._token_file is not None:
                headers["authorization"] = f"Bearer {self._secrets.read(self._token_file)}"
        except BadValue as bad:
            raise Failed(str(bad), again=False) from None
        except (OSError, ValueError) as error:  # the token is being replaced
            raise Failed(f"token_file: {type(error).__name__}", again=True) from None
        return self._http.call(call.method, call.url, call.body, headers, accepts=self._accepts)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()
