"""Acts that others see: messages, tickets, orders, appointments, other agents, programs in the background.

The same one again is a duplicate, whatever is answered: a new id in the answer is none of the agent's progress.

Misses: acts whose tools have other names and arguments; requests by a program or over HTTP.
"""

import re
from functools import lru_cache

from haltline.detectors.features import tool_effects
from haltline.detectors.features.fingerprint import digest
from haltline.detectors.features.observation_protocol import ToolCall
from haltline.detectors.features.tool_classifier import short_name
from haltline.schemas.events import Effect
from haltline.schemas.policy import Reading
from haltline.schemas.record import canonical_json
from haltline.schemas.tool_names import words

_EXEC, _NETWORK = Effect.EXEC, Effect.NETWORK
_SQL, _SHELL = Reading.SQL, Reading.SHELL
_LOOKING = frozenset({Effect.READ, Effect.POLL})
_ACTS = frozenset((
    "announce", "book", "buy", "charge", "comment", "create", "delegate", "dispatch", "email", "enqueue", "insert",
    "invite", "launch", "mail", "notify", "order", "pay", "post", "provision", "publish", "purchase", "refund", "reply",
    "respond", "schedule", "send", "spawn", "transfer", "trigger", "tweet",
))  # fmt: skip
_INPUT = frozenset((
    "file", "folder", "directory", "dir", "key", "keys", "keystrokes", "input", "line", "stdin", "signal", "command",
    "text",
))  # fmt: skip
"""What is sent to a program, or made in the agent's own files, is no act that others see."""
_AGENTS = frozenset(("task", "agent"))
"""Tools that start another agent, if they have a `prompt`."""
_OPERATIONS = ("action", "operation", "method", "command")
_TEXTS = frozenset(("text", "content", "body", "message"))
_RECIPIENTS = frozenset((
    "to", "channel", "channel_id", "chat_id", "recipient", "recipients", "thread_id", "conversation_id", "email",
))  # fmt: skip
_LABELS = ("element", "label", "text", "name")
_IN_BACKGROUND = ("is_background", "run_in_background", "background")
_INSERTS = re.compile(r"\s*insert\s+into\b", re.IGNORECASE)
_STARTS = re.compile(r"(?:^|[^&])&\s*\Z|^\s*nohup\s")
_TAIL_CHARS = 64


def is_outward(act: ToolCall) -> bool:
    """Return whether an attempt is an act that others see."""
    args, effect = act.args, act.tool.effect
    if not args or effect in _LOOKING:
        return False
    if effect is _EXEC:
        return inserts(act) or (act.tool.reading is _SHELL and _stays(act))
    named = _named(act.action)
    if "prompt" in args and not _AGENTS.isdisjoint(named):
        return True
    operation = next((args[name] for name in _OPERATIONS if isinstance(args.get(name), str)), "")
    if operation and " " not in operation and len(operation) < _TAIL_CHARS:
        if effect is _NETWORK and act.tool.use is not None:
            return True  # as the description of tools says: a question that is put to a chat, a reaction
        return not _ACTS.isdisjoint(words(operation)) and _INPUT.isdisjoint((*words(operation), *named))
    if tool_effects.is_click(act.action):
        label = next((args[name] for name in _LABELS if isinstance(args.get(name), str)), "")
        return not _ACTS.isdisjoint(words(label[:_TAIL_CHARS].lower()))
    if not _ACTS.isdisjoint(named):
        return _INPUT.isdisjoint(named) and not act.targets[0].startswith("path=")
    return not _TEXTS.isdisjoint(args) and not _RECIPIENTS.isdisjoint(args)


def act_key(act: ToolCall) -> str:
    """Return a digest of the act, without the place where a page now has the clicked element."""
    args = act.args or {}
    if "ref" in args and any(name in args for name in _LABELS):
        args = {name: value for name, value in args.items() if name != "ref"}
    return digest(act.action.encode() + canonical_json(args))


def inserts(act: ToolCall) -> bool:
    """Return whether it is a statement that inserts rows."""
    return act.tool.reading is _SQL and _INSERTS.match(act.text) is not None


def _stays(act: ToolCall) -> bool:
    """Return whether it starts a program that stays in the background."""
    args = act.args or {}
    if any(args.get(name) is True for name in _IN_BACKGROUND):
        return True
    return "&" in act.text[-_TAIL_CHARS:] and _STARTS.search(act.text[-_TAIL_CHARS:]) is not None


@lru_cache(maxsize=4096)
def _named(action: str) -> tuple[str, ...]:
    return words(short_name(action))
