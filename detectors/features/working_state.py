"""Things that are removed in the course of normal work and are no loss, recognized by their kind.

An acknowledged message of a queue was processed; an archived or labelled one still exists; an item in a cart was not
bought yet; a draft was not sent.

Misses: such things under names specific to a shop or a mailer; a cart or draft that a person has worked on for long.
"""

from haltline.detectors.commands.rows import words_of
from haltline.detectors.features.observation_protocol import Observed
from haltline.schemas import expressions as re
from haltline.schemas.tool_names import words

_RECEIPTS = words_of("arguments that acknowledge a message")
"""Received with a message, and returned when it is processed."""
_LISTS = ("entries", "messages", "items")
_UNFINISHED = words_of("things that nobody misses")
_OF_A_LIST = frozenset(("item", "list"))
_CARTS = frozenset(("cart", "cart_id", "basket", "basket_id", "wishlist", "wishlist_id"))
_FILED = frozenset(("archive", "label", "unlabel", "tag", "untag", "star", "unstar", "mark", "snooze", "mute"))
_MESSAGES = words_of("things in a mailbox")
_HOLDS_MANY = frozenset(("table", "database", "collection", "index", "bucket", "folder", "topic", "all"))
_PLACE = re.compile(r"/(?:cart|basket|carts/[^/?#]+/\w+|baskets/[^/?#]+/\w+|drafts/[^/?#]+)(?:[/?#]|$)", re.IGNORECASE)


def nobody_misses(act: Observed) -> bool:
    """Return whether a call of a tool removes something that only existed to be worked on."""
    args = act.args or {}
    named = {"_".join(words(name)) for name in args}
    if not _RECEIPTS.isdisjoint(named) or _has_receipts(args):
        return True
    named_by = frozenset(words(act.action))
    if not _FILED.isdisjoint(named_by) and not _MESSAGES.isdisjoint(named_by):
        return True  # it is kept elsewhere in the same mailbox
    if named_by >= _OF_A_LIST or ("item" in named_by and not _CARTS.isdisjoint(named)):
        return True
    if not _UNFINISHED.isdisjoint(named_by):
        return _HOLDS_MANY.isdisjoint(named_by)
    place = args.get("url") or args.get("path") or args.get("endpoint")
    return isinstance(place, str) and _PLACE.search(place) is not None


def _has_receipts(args: dict[str, object]) -> bool:
    for name, value in args.items():
        if name.lower() in _LISTS and isinstance(value, list) and value and isinstance(value[0], dict):
            return not _RECEIPTS.isdisjoint("_".join(words(inner)) for inner in value[0])
    return False
