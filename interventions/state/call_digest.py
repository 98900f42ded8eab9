"""The identity of a call: the same on the agent's side and in the worker."""

from collections.abc import Iterable
from hashlib import blake2b

from haltline.schemas.events import ActionEvent
from haltline.schemas.record import JsonObject, canonical_json


def parameters(event: ActionEvent) -> str | None:
    """Return a digest of the call's canonical parameters: tool, targets, and arguments as JSON with sorted keys.

    The producer's own digest of the arguments replaces them, as it is of the whole. None: the event names no call.
    """
    if not event.action or (event.args is None and event.args_digest is None and not event.targets):
        return None
    return parameters_of(event.action, event.args, event.targets, event.args_digest)


def parameters_of(
    action: str, args: JsonObject | None, targets: Iterable[str] = (), args_digest: str | None = None
) -> str:
    """Return the same digest for a call that is not given as an event."""
    digested = args_digest.encode() if args_digest else canonical_json(args)
    parts = (action.encode(), *(target.encode() for target in sorted(targets)), digested)
    return blake2b(b"\x1f".join(parts), digest_size=16).hexdigest()
