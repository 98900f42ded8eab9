"""LiteLLM: the usage of each model turn, as an event of its session.

    litellm.callbacks = [HaltlineUsage(GuardSettings.from_env(session_id="night-7"))]      # in an agent's own process

In the proxy's configuration `callbacks: haltline.interventions.agent.integrations.litellm.usage`. There sessions and
agents are those of the guardrail (`haltline intake`), which publishes calls of tools and no turns, so nothing is
counted twice. This callback refuses nothing. Needs litellm (`pip install 'haltline[litellm]'`).
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, Final

from litellm import completion_cost
from litellm.integrations.custom_logger import CustomLogger
from pydantic import BaseModel

from haltline.interventions.agent.frame.calls import usage_as_counted
from haltline.interventions.agent.integrations.litellm_agent import MAX_ID_CHARS, agent_of
from haltline.interventions.agent.producers.cleaning import cleaned
from haltline.interventions.agent.producers.publishing import Publisher
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.events import ActionEvent, Kind

log: Final = logging.getLogger("haltline.agent")


class HaltlineUsage(CustomLogger):
    """Publishes tokens and cost of each completed model call. Never waits or raises."""

    def __init__(self, settings: GuardSettings | None = None) -> None:
        """Without settings, uses those of `GuardSettings.from_env()` at the end of the first model call.

        Outside the proxy, a call whose metadata has no `session_id` belongs to the settings' session.
        """
        super().__init__()
        self._given = settings
        self._ready: tuple[GuardSettings, Publisher] | None = None
        self._lock = threading.Lock()
        self._failed = 0

    @property
    def dropped(self) -> int:
        """Turns that could not be described, or that the broker did not accept."""
        return self._failed + (0 if self._ready is None else self._ready[1].dropped)

    def log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Publish the turn of a synchronous call."""
        self._tell(finished_turn, kwargs)

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Publish the turn of an asynchronous call, or of a call through the proxy."""
        self._tell(finished_turn, kwargs)

    async def async_post_call_failure_hook(
        self, request_data: Any, original_exception: Any, user_api_key_dict: Any, traceback_str: str | None = None
    ) -> None:
        """Publish the turn of a response that a guardrail of the proxy blocked: it used tokens, but is no success."""
        if _usage_in(request_data.get("response")):
            self._tell(blocked_turn, request_data)

    def flush(self, within_s: float = 5.0) -> bool:
        """Wait for pending records, before a process ends. False: some have not arrived."""
        return self._ready is None or self._ready[1].flush(within_s) == 0

    def _tell(self, describe: Callable[[Mapping[str, Any], GuardSettings], ActionEvent], of: Mapping[str, Any]) -> None:
        try:
            settings, publisher = self._connected()
            publisher.publish([cleaned(describe(of, settings), settings)])
        except Exception:  # an error here must not break a model call
            log.exception("haltline: a turn of a model could not be published")
            with self._lock:
                self._failed += 1

    def _connected(self) -> tuple[GuardSettings, Publisher]:
        with self._lock:
            if self._ready is None:
                settings = self._given or GuardSettings.from_env()
                self._ready = settings, Publisher(settings)
            return self._ready


def finished_turn(kwargs: Mapping[str, Any], settings: GuardSettings) -> ActionEvent:
    """Return a turn from LiteLLM's callback arguments."""
    payload: Mapping[str, Any] = kwargs.get("standard_logging_object") or {}
    params: Mapping[str, Any] = kwargs.get("litellm_params") or {}
    trace_id = kwargs.get("litellm_trace_id") if params.get("proxy_server_request") else None
    used = (payload.get("metadata") or {}).get("usage_object") or payload
    ids = kwargs.get("litellm_call_id"), payload.get("id")
    return _turn(ids, _metadata(params, trace_id), {**used, "cost": payload.get("response_cost")}, settings)


def blocked_turn(request: Mapping[str, Any], settings: GuardSettings) -> ActionEvent:
    """Return a turn whose response the agent does not get, from the proxy's request."""
    response = request["response"]
    if (cost := getattr(response, "_hidden_params", {}).get("response_cost")) is None:
        with contextlib.suppress(Exception):  # LiteLLM does not know the model's price
            cost = completion_cost(completion_response=response, model=request.get("model"))
    metadata = _metadata(request, request.get("litellm_trace_id"))
    ids = request["litellm_call_id"], response.get("id") if isinstance(response, Mapping) else response.id
    return _turn(ids, metadata, {**_usage_in(response), "cost": cost}, settings)


def _turn(
    ids: tuple[object, object], metadata: Mapping[str, Any], used: Mapping[str, Any], settings: GuardSettings
) -> ActionEvent:
    """Return the turn. Its id is of LiteLLM's call, which an agent can name, and of the response: each counts once."""
    session_id = metadata.get("session_id") or metadata.get("trace_id") or settings.session_id
    return ActionEvent(
        event_id=f"litellm-{blake2b(repr(ids).encode(), digest_size=16).hexdigest()}",
        kind=Kind.MODEL_TURN,
        session_id=str(session_id)[:MAX_ID_CHARS],
        agent_id=agent_of(metadata, settings.agent_id),
        time=time.time_ns() // 1_000_000,
        usage=usage_as_counted(used).model_copy(update={"cost_usd": max(float(used.get("cost") or 0.0), 0.0)}),
    )


def _usage_in(response: Any) -> dict[str, Any]:
    """Return the usage of a response, an object of a model or JSON; empty without any."""
    found = response.get("usage") if isinstance(response, Mapping) else getattr(response, "usage", None)
    return dict(found) if isinstance(found, Mapping) else found.model_dump() if isinstance(found, BaseModel) else {}


def _metadata(request: Mapping[str, Any], trace_id: object) -> dict[str, Any]:
    """Return LiteLLM's metadata of a request, on some routes of the proxy under the second name; and its trace."""
    named = {**(request.get("metadata") or {}), **(request.get("litellm_metadata") or {})}
    return {**named, "trace_id": named.get("trace_id") or trace_id}


usage: Final = HaltlineUsage()
"""The callback for the proxy's configuration; its settings are from the environment (`HALTLINE_BOOTSTRAP` ...)."""
