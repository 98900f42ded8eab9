"""LiteLLM: what each turn of a model used, as an event of its session.

    litellm.callbacks = [HaltlineUsage(GuardSettings.from_env(session_id="night-7"))]      # in an agent's own process

In the proxy's configuration `callbacks: haltline.interventions.agent.integrations.litellm.usage`; there sessions and
agents are those of the guardrail (`haltline intake`), which publishes calls of tools and no turns, so nothing is
counted twice. A callback hears of what has been done: nothing is refused here. Needs litellm
(`pip install 'haltline[litellm]'`).
"""

import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from datetime import datetime
from typing import Any, Final

from litellm.integrations.custom_logger import CustomLogger

from haltline.interventions.agent.integrations.cleaning import cleaned
from haltline.interventions.agent.integrations.framework_session import tokens
from haltline.interventions.agent.integrations.publishing import Publisher
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.events import ActionEvent, Kind

log: Final = logging.getLogger("haltline.agent")

_AGENT_FIELDS: Final = ("user_api_key_alias", "user_api_key_team_alias", "user_api_key_team_id", "user_api_key_user_id")
_MAX_ID_CHARS: Final = 256
_FLUSH_S: Final = 5.0


class HaltlineUsage(CustomLogger):
    """Publishes tokens and cost of each finished call of a model. Neither waits nor raises."""

    def __init__(self, settings: GuardSettings | None = None) -> None:
        """Without settings, those of `GuardSettings.from_env()` when the first call of a model has ended.

        Outside the proxy, a call whose metadata has no `session_id` is one of the settings' session.
        """
        super().__init__()
        self._given = settings
        self._ready: tuple[GuardSettings, Publisher] | None = None
        self._lock = threading.Lock()
        self.dropped = 0
        """Turns that could not be described, or that the broker did not take."""

    def log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Of calls that are not awaited."""
        self._tell(kwargs, end_time)

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Of calls that are awaited, and of every call through the proxy."""
        self._tell(kwargs, end_time)

    def flush(self, within_s: float = _FLUSH_S) -> bool:
        """Waits for what is under way: before a process ends. False: not all of it has arrived."""
        return self._ready is None or self._ready[1].flush(within_s) == 0

    def _tell(self, kwargs: Mapping[str, Any], ended: Any) -> None:
        try:
            settings, publisher = self._connected()
            (published,) = publisher.publish([cleaned(event_of(kwargs, ended, settings), settings)])
            published.add_done_callback(self._count)
        except Exception:  # nothing of ours may break a call of a model
            log.exception("haltline: a turn of a model could not be published")
            self._drop()

    def _connected(self) -> tuple[GuardSettings, Publisher]:
        with self._lock:
            if self._ready is None:
                settings = self._given or GuardSettings.from_env()
                self._ready = settings, Publisher(settings)
            return self._ready

    def _count(self, done: "Future[None]") -> None:
        if (error := done.exception()) is not None:
            log.warning("haltline: a turn of a model did not arrive: %s", error)
            self._drop()

    def _drop(self) -> None:
        with self._lock:
            self.dropped += 1


def event_of(kwargs: Mapping[str, Any], ended: Any, settings: GuardSettings) -> ActionEvent:
    """A turn, from what LiteLLM tells its callbacks; its id is the call's, so that one told twice is counted once."""
    told: Mapping[str, Any] = kwargs.get("standard_logging_object") or {}
    params: Mapping[str, Any] = kwargs.get("litellm_params") or {}
    metadata: Mapping[str, Any] = params.get("metadata") or {}
    proxied = bool(params.get("proxy_server_request"))
    of_call = [metadata.get("session_id"), metadata.get("trace_id")]
    of_request = [kwargs.get("litellm_trace_id"), settings.session_id] if proxied else [settings.session_id]
    session_id = next(str(one) for one in (*of_call, *of_request) if one)
    agent_id = next((str(metadata[name]) for name in _AGENT_FIELDS if metadata.get(name)), settings.agent_id)
    usage = (told.get("metadata") or {}).get("usage_object") or {}
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    used = tokens(told.get("prompt_tokens"), told.get("completion_tokens"), cached)
    cost = told.get("response_cost")
    turn_id = str(kwargs.get("litellm_call_id") or told["id"])
    return ActionEvent(
        event_id=f"litellm-{turn_id}"[:_MAX_ID_CHARS],
        kind=Kind.MODEL_TURN,
        session_id=session_id[:_MAX_ID_CHARS],
        agent_id=agent_id[:_MAX_ID_CHARS],
        time=int(ended.timestamp() * 1000) if isinstance(ended, datetime) else time.time_ns() // 1_000_000,
        usage=used.model_copy(update={"cost_usd": max(float(cost or 0.0), 0.0)}),
    )


usage: Final = HaltlineUsage()
"""For the proxy's configuration; its settings are those of the environment (`HALTLINE_BOOTSTRAP` ...)."""
