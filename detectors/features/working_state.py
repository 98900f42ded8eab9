"""What is taken away in the course of work, so that nobody misses it: what says so is the kind of the thing.

A message of a queue that is acknowledged was worked on; one that is archived or
labelled is still there; an item of a cart was not bought yet; a draft was not sent.

Misses: such things under names of a shop's or a mailer's own; a cart or draft that a person has worked on for long.
"""

import re

from haltline.detectors.features.observation_protocol import ToolCall
from haltline.schemas.tool_names import words

_RECEIPTS = frozenset((
    "receipt", "receipt_handle", "ack_id", "ack_ids", "delivery_tag", "lock_token", "lease_id", "pop_receipt",
))  # fmt: skip
"""Given out with a message, and given back when it is done."""
_LISTS = ("entries", "messages", "items")
_UNFINISHED = frozenset((
    "cart", "basket", "draft", "drafts", "todo", "todos", "reminder", "notification", "notifications", "scratchpad",
    "cell", "cache", "caches", "wishlist", "watchlist", "favorites", "bookmark", "bookmarks", "memory", "memories",
    "scratch", "reaction", "reactions", "annotation", "breakpoint", "breakpoints", "highlight", "clipboard", "lock",
))  # fmt: skip
_OF_A_LIST = frozenset(("item", "list"))
_CARTS = frozenset(("cart", "cart_id", "basket", "basket_id", "wishlist", "wishlist_id"))
_FILED = frozenset(("archive", "label", "unlabel", "tag", "untag", "star", "unstar", "mark", "snooze", "mute"))
_MESSAGES = frozenset(
    ("email", "emails", "mail", "message", "messages", "thread", "conversation", "card", "notification", "issue")
)
_HOLDS_MANY = frozenset(("table", "database", "collection", "index", "bucket", "folder", "topic", "all"))
_PLACE = re.compile(r"/(?:cart|basket|carts/[^/?#]+/\w+|baskets/[^/?#]+/\w+|drafts/[^/?#]+)(?:[/?#]|$)", re.IGNORECASE)


def nobody_misses(act: ToolCall) -> bool:
    """Whether a call of a tool takes away what was only there to be worked on."""
    args = act.args or {}
    named = {"_".join(words(name)) for name in args}
    if not _RECEIPTS.isdisjoint(named) or _has_receipts(args):
        return True
    named_by = frozenset(words(act.action))
    if not _FILED.isdisjoint(named_by) and not _MESSAGES.isdisjoint(named_by):
        return True  # it is somewhere else in the same mailbox
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
