"""Acts that others see: messages, tickets, orders, appointments, other agents, programs in the background, machines.

The same one again is a duplicate, whatever is answered: a new id in the answer is none of the agent's progress.

Misses: acts whose tools have other names and arguments; requests by a program or over HTTP.
"""

from functools import lru_cache

from haltline.detectors.commands.model import ActEffect, holds_one
from haltline.detectors.commands.rows import expression_of, words_of
from haltline.detectors.features import tool_effects
from haltline.detectors.features.fingerprint import digest
from haltline.detectors.features.observation_protocol import Observed
from haltline.detectors.features.tool_classifier import short_name
from haltline.schemas import expressions as re
from haltline.schemas.events import Effect
from haltline.schemas.policy import Reading
from haltline.schemas.record import canonical_json
from haltline.schemas.tool_names import words

_EXEC, _NETWORK = Effect.EXEC, Effect.NETWORK
_SQL, _SHELL = Reading.SQL, Reading.SHELL
_LOOKING = frozenset({Effect.READ, Effect.POLL})
_ACTS = words_of("verbs of acts that others see")
_INPUT = words_of("things that nobody else sees")
"""What is sent to a program, or made in the agent's own files, is no act that others see."""
_AGENTS = frozenset(("task", "agent"))
"""Tools that start another agent, if they have a `prompt`."""
_OPERATIONS = ("action", "operation", "method", "command")
_NAMES_OF_OPERATIONS = frozenset(_OPERATIONS)
_TEXTS = frozenset(("text", "content", "body", "message"))
_RECIPIENTS = words_of("arguments that name a recipient")
_LABELS = ("element", "label", "text", "name")
_WORDING = _TEXTS | {"html", "markdown", "comment", "description", "summary"}
"""Texts that can say the same in other words."""
_TO_WHAT = words_of("arguments that name what is answered")
_ANSWERS = re.compile(r"^(?:\s*(?:re|aw|fwd?)\s*:)+\s*", re.IGNORECASE)
_PAGES = words_of("words of tools for pages")
_MACHINES = words_of("machines")
_STARTS_MACHINES = frozenset(("create", "launch", "provision", "run", "rent"))
_LAUNCHES = expression_of("a command line starts machines")
_LAUNCH_CUES = ("create", "run", "launch", "spot", "allocate")
_LINE_CHARS = 2048
_NUMBERS = re.compile(rb"\d+")
_IN_BACKGROUND = frozenset(("is_background", "run_in_background", "background"))
_INSERTS = re.compile(r"\A\s*insert\s+into\b", re.IGNORECASE)
_STARTS = re.compile(r"(?:^|[^&])&\s*\Z|^\s*nohup\s")
_TAIL_CHARS = 64


def is_outward(act: Observed) -> bool:
    """Return whether an attempt is an act that others see."""
    args, effect = act.args, act.tool.effect
    if not args or effect in _LOOKING:
        return False
    if effect is _EXEC:
        return (stays(act) or launches(act)) if act.tool.reading is _SHELL else inserts(act)
    named = _named(act.action)
    if "prompt" in args and not _AGENTS.isdisjoint(named):
        return True
    operation = ""
    if not _NAMES_OF_OPERATIONS.isdisjoint(args):
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


def act_key(act: Observed) -> str:
    """Return a digest of the act, without the place where a page now has the clicked element."""
    args = act.args or {}
    if "ref" in args and any(name in args for name in _LABELS):
        args = {name: value for name, value in args.items() if name != "ref"}
    return digest(act.action.encode() + canonical_json(args))


def addressed_key(act: Observed) -> str:
    """Return a digest of an act that says something to somebody, without its wording; empty: no such act."""
    args = act.args or {}
    if act.runs or "prompt" in args or _WORDING.isdisjoint(args) or (_RECIPIENTS | _TO_WHAT).isdisjoint(args):
        return ""
    kept = {name: value for name, value in args.items() if name not in _WORDING}
    if isinstance(kept.get("subject"), str):
        kept["subject"] = _ANSWERS.sub("", kept["subject"]).lower()
    return digest(act.action.encode() + canonical_json(kept))


def answers(act: Observed) -> bool:
    """Return whether it says something about one mail, thread, issue or ticket."""
    return not _TO_WHAT.isdisjoint(act.args or {})


def launches(act: Observed) -> bool:
    """Return whether it starts machines or services elsewhere that cost as long as they run."""
    if not act.runs:
        named = _named(act.action)
        return not _STARTS_MACHINES.isdisjoint(named) and not _MACHINES.isdisjoint(named)
    text = act.text[:_LINE_CHARS]
    return holds_one(text, _LAUNCH_CUES) and _LAUNCHES.search(text) is not None and "--dry-run" not in text


def numberless_key(act: Observed) -> str:
    """Return a digest of the act without the numbers in it."""
    return digest(_NUMBERS.sub(b"#", act.action.encode() + canonical_json(act.args or {})))


def is_of_page(act: Observed) -> bool:
    """Return whether it does something on a page: what is done there decides what a button is about."""
    return not act.runs and act.tool.effect not in _LOOKING and _names_a_page(act.action)


def spends_by_button(act: Observed) -> bool:
    """Return whether it clicks a button that orders or pays; what, only the page knows."""
    if not act.args or not is_of_page(act):
        return False
    return any(one.effect is ActEffect.SPENDS for one in tool_effects.click(act.action, act.args))


def inserts(act: Observed) -> bool:
    """Return whether it is a statement that inserts rows."""
    return act.tool.reading is _SQL and _INSERTS.match(act.text) is not None


def stays(act: Observed) -> bool:
    """Return whether it starts a program that stays in the background."""
    args = act.args
    if args and not _IN_BACKGROUND.isdisjoint(args) and any(args.get(name) is True for name in _IN_BACKGROUND):
        return True
    tail = act.text[-_TAIL_CHARS:]
    return "&" in tail and _STARTS.search(tail) is not None


@lru_cache(maxsize=4096)
def _names_a_page(action: str) -> bool:
    return not _PAGES.isdisjoint(_named(action))


@lru_cache(maxsize=4096)
def _named(action: str) -> tuple[str, ...]:
    return words(short_name(action))
