"""The fail policy of front ends, where no service answers: by the effect of a call's name, and of what it would run."""

import orjson

from haltline.interventions.agent.enforcement.fail_policy import holds_word
from haltline.interventions.agent.rules.known_effects import known_effect, only_keeps
from haltline.interventions.agent.service.limited import Overdue, in_time
from haltline.schemas.events import Effect


def is_closed(tool: str, args: object, closed_from: Effect | None) -> bool:
    """Return whether a call is refused without a verdict: of this effect or a worse one; None: no call is.

    A text that takes too long to read is searched for words of destruction. Raises ValueError if it is no valid call.
    """
    if closed_from is None:
        return False
    effect = known_effect(tool, None)
    if effect >= closed_from or not isinstance(args, dict) or only_keeps(tool, effect):
        return effect >= closed_from
    from haltline.interventions.agent.transport.local_decider import effect_of  # noqa: PLC0415 - it takes a second

    try:
        with in_time():
            return effect_of(tool, args) >= closed_from
    except Overdue:
        return holds_word(orjson.dumps(args))
