"""The agent of a request through LiteLLM's proxy. Also imported by the intake, which has no LiteLLM."""

from collections.abc import Mapping
from typing import Any, Final

_FIELDS: Final = ("user_api_key_alias", "user_api_key_team_alias", "user_api_key_team_id", "user_api_key_user_id")
MAX_ID_CHARS: Final = 256


def agent_of(metadata: Mapping[str, Any], otherwise: str) -> str:
    """Return the alias of the key, else its team, else its user; LiteLLM has authenticated these."""
    found = (value for name in _FIELDS if isinstance(value := metadata.get(name), str) and value)
    return next(found, otherwise)[:MAX_ID_CHARS]
