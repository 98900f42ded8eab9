"""The fail policy: which calls wait for a verdict, and which are refused if none arrives in time."""

from typing import Final

from haltline.interventions.agent.call import Call
from haltline.interventions.agent.enforcement.destructive_words import may_destroy
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.events import Effect

_LOOKS: Final = frozenset({Effect.READ, Effect.POLL})


class FailPolicy:
    """Applies `fail_closed_from` and `ask_from` of the settings; a call's own mode has precedence."""

    def __init__(self, settings: GuardSettings) -> None:
        self._settings = settings
        closed_from, asks_from = settings.fail_closed_from, settings.ask_from
        self._closed = {effect for effect in Effect if closed_from is not None and effect >= closed_from}
        self._asks = {effect for effect in Effect if asks_from is not None and effect >= asks_from}

    def is_closed(self, call: Call) -> bool:
        """Return whether the call is refused without a verdict."""
        return call.effect in self._closed

    def waits(self, call: Call, *, link_up: bool) -> bool:
        """Return whether the call waits for a verdict of the worker."""
        if call.mode != "async" or call.is_mode_explicit:
            return call.mode == "blocking"
        if not self._asks or not link_up:
            return False
        return call.effect in self._asks or (call.effect not in _LOOKS and may_destroy(call, self._settings))
