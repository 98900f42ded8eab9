"""Changed arguments instead of a refusal. Pure.

Only changes are sent, as the worker may see truncated or redacted arguments.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from haltline.interventions.author_rules.stated import TRIPWIRE
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.intervening import Modification
from haltline.schemas.record import JsonObject


class Changes(NamedTuple):
    """Changes to the proposed arguments of a call."""

    put: JsonObject
    remove: tuple[str, ...]

    def of(self, args: JsonObject) -> JsonObject:
        """Return the arguments to use."""
        return {name: value for name, value in args.items() if name not in self.remove} | self.put


def modified(event: ActionEvent, rule: str, modifications: Sequence[Modification]) -> Changes | None:
    """Return the changes; None if no modification matches the call, or the first match changes nothing.

    Only a proposal can still be changed.
    """
    if event.kind is not Kind.PROPOSED:
        return None
    named = (rule, "acgp") if rule.startswith(TRIPWIRE) else (rule,)  # policies of before name tripwires so
    for one in modifications:
        if fnmatchcase(event.action, one.action) and not (one.rules and set(named).isdisjoint(one.rules)):
            return _changes(event.args or {}, one)
    return None


def _changes(args: JsonObject, how: Modification) -> Changes | None:
    put = {name: value for name, value in how.put.items() if name not in args or args[name] != value}
    for name, most in how.cap.items():
        value = put.get(name, args.get(name))
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > most:
            put[name] = type(value)(most)
    remove = tuple(name for name in how.remove if name in args)
    return Changes(put, remove) if put or remove else None
