"""The effect of a tool by its name, for the fail policy.

The worker's classifier knows more (commands, SQL, the policy's own tools); the agent's side does not include it. A test
checks that the two agree on every name here.
"""

from fnmatch import translate
from functools import lru_cache

from haltline.schemas import expressions as re
from haltline.schemas import tools
from haltline.schemas.events import Effect
from haltline.schemas.tool_names import destroying_verb, names_of

_BY_NAME = tuple(
    (re.compile(rf"\A(?:{'|'.join(map(translate, tools.certain(effect)))})"), effect)
    for effect in (Effect.DESTRUCTIVE, Effect.READ)
)


_KEEPS = re.compile(rf"\A(?:{'|'.join(map(translate, tools.stores()))})")


@lru_cache(maxsize=1024)
def only_keeps(action: str, effect: Effect) -> bool:
    """Return whether a tool certainly does not execute its input: it only reads, or stores a text."""
    if effect is Effect.READ:
        return True
    return effect is Effect.EXEC and any(_KEEPS.match(name) for name in names_of(action))


@lru_cache(maxsize=1024)
def known_effect(action: str, hint: Effect | None) -> Effect:
    """Return the effect of a tool by its name, raised by the hint; EXEC for an unknown name."""
    names = names_of(action)
    known = next((effect for pattern, effect in _BY_NAME if any(pattern.match(name) for name in names)), None)
    if known is None and destroying_verb(action):
        known = Effect.DESTRUCTIVE
    if known is not None:
        return known if hint is None else max(known, hint)
    return Effect.EXEC if hint is None else hint
