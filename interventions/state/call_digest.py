"""What a call is, exactly: the same on the agent's side and in the worker."""

from collections.abc import Iterable
from hashlib import blake2b

from haltline.schemas.events import ActionEvent
from haltline.schemas.record import JsonObject, canonical_json


def parameters(event: ActionEvent) -> str | None:
    """A digest of the call's canonical parameters: its tool, its targets, its arguments as JSON with sorted keys.

    The producer's own digest of the arguments stands for them, since it is of the whole. None: the event does not
    say what is called.
    """
    if not event.action or (event.args is None and event.args_digest is None and not event.targets):
        return None
    return parameters_of(event.action, event.args, event.targets, event.args_digest)


def parameters_of(
    action: str, args: JsonObject | None, targets: Iterable[str] = (), args_digest: str | None = None
) -> str:
    """As `parameters`, of a call that is told otherwise than by an event."""
    digested = args_digest.encode() if args_digest else canonical_json(args)
    parts = (action.encode(), *(target.encode() for target in sorted(targets)), digested)
    return blake2b(b"\x1f".join(parts), digest_size=16).hexdigest()
