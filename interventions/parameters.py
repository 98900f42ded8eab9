"""What a call is, exactly: the same on the agent's side and in the worker."""

from hashlib import blake2b

import orjson

from haltline.schemas.events import ActionEvent

_SORTED = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


def parameters(event: ActionEvent) -> str | None:
    """A digest of the call's canonical parameters: its tool, its targets, its arguments as JSON with sorted keys.

    The producer's own digest of the arguments stands for them, since it is of the whole. None: the event does not
    say what is called.
    """
    if not event.action or (event.args is None and event.args_digest is None and not event.targets):
        return None
    said = event.args_digest.encode() if event.args_digest else orjson.dumps(event.args, option=_SORTED)
    parts = (event.action.encode(), *(target.encode() for target in sorted(event.targets)), said)
    return blake2b(b"\x1f".join(parts), digest_size=16).hexdigest()
