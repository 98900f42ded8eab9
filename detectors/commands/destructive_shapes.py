"""Argument shapes of destructive calls whose tool name does not show it.

A dispatcher contains other calls (`call_tool{name, arguments}`, `batch{calls}`), an argument names the operation
(`{"operation": "delete"}`, `{"method": "DELETE"}`), a text contains a GraphQL mutation or a statement, a flag marks
an object as deleted. The depth and number of arguments read are bounded.

Misses: opaque operation codes (`{"mode": 7}`); mutations with uninformative names; clicks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from haltline.detectors.commands.arguments import MAX_CALLS, MAX_ID_CHARS, decoded, leaves, pairs, snake
from haltline.detectors.commands.model import ActEffect, Destruction, listed
from haltline.detectors.commands.rows import expression_of, words_of
from haltline.detectors.commands.tool_name_severity import badness
from haltline.schemas import expressions as re
from haltline.schemas import tools
from haltline.schemas.record import JsonObject
from haltline.schemas.tool_names import destroying_verb, words

_MAX_WORD_CHARS = 64

_NAMES = ("name", "tool_name", "tool", "tool_slug", "recipient_name", "function_name", "function", "action",
          "operation_name")  # fmt: skip
_HOLDS_NAME = frozenset(_NAMES)
_ARGUMENTS = ("with", "arguments", "args", "parameters", "params", "input", "tool_input", "kwargs", "payload", "body")
_LISTS = listed("calls tool_uses tool_calls invocations steps operations requests actions batch tasks")
_OPERATIONS = tuple(words_of("arguments that name an operation"))
_METHODS = ("method", "http_method", "verb", "request_method")
_PLACES = tools.arguments("place")
_ALONE = frozenset(("terminate", "retire", "evict"))
"""Operations that are destructive, but not as a verb in the name of a tool."""
TEXTS = ("query", "sql", "statement", "sql_text", "mutation", "document", "graphql", "body", "data")
_STATES = ("status", "state", "lifecycle", "visibility", "ensure")
_GONE = frozenset(("absent", "deleted", "removed", "destroyed", "trashed", "purged", "dropped"))
_FLAGS = frozenset(("deleted", "is_deleted", "isdeleted", "removed", "is_removed", "destroyed", "purged", "delete"))
TELLING = frozenset((
    *_NAMES[1:], *_ARGUMENTS, *_LISTS, *_OPERATIONS, *TEXTS, *_STATES, *_FLAGS, *words_of("arguments of shapes"),
))  # fmt: skip
"""The arguments that the shapes need; a call with none of them has no shape."""
_VERB_FIELDS = frozenset(("do", "type", "cmd", "event", "task", "what"))
"""Arguments that name the operation of an otherwise unknown tool."""
_ONE_WORD = re.compile(r"[^\W\d][\w.:-]*")
_TELLS = words_of("words of tools that report")
"""Words in names of tools that report what happened elsewhere."""
_TOOL_NAMES = ("tool", "tool_name", "function_name", "recipient_name", "function", "fn")
_DISPATCHES = frozenset(("call", "invoke", "execute", "run", "use", "dispatch", "tool", "perform"))
_THING_TO_GO = expression_of("an argument names what is deleted")
_GONE_AT = frozenset(("deleted_at", "removed_at", "deletion_time", "deletion_date"))
_COMMANDED = re.compile(r"\A\s*(?P<verb>[a-z_]{2,20})\s+(?P<name>[\w./:-]{1,120})\s*", re.IGNORECASE)
_PROSE = frozenset(tools.arguments("prose"))
"""Arguments whose text is for people, or for storage."""
_REMOVAL = re.compile(r"\A\s*(?:sudo\s+(?:-\S+\s+)*)?(?:/\S*/)?(?:rm|rmdir|shred|unlink)\s+(?:-\S+\s+)*[\w~/.$\"'*]")
_PROGRAM_ARGS = listed("python javascript expression call source_code cells source program code script")
_OVERRIDE = frozenset(("x_http_method_override", "x_http_method", "x_method_override"))
_DELETING_PLACE = expression_of("an address that deletes", re.IGNORECASE)
_DOCUMENTATION = expression_of("a page that documents", re.IGNORECASE)
"""Pages that say how to delete something."""
_BY_QUERY = re.compile(r"[?&](?:action|op|operation|method|cmd|do)=(?P<verb>[\w-]+)", re.IGNORECASE)
_LAST_OF_PLACE = re.compile(r"[/:.](?P<last>[\w-]+)/?(?:[?#].*)?$")
_CHANGES = frozenset(("POST", "PUT", "PATCH"))
_DATA_PATCH = re.compile(r"^\*\*\* Delete File: (?P<file>.+)$", re.MULTILINE)


class Deed(NamedTuple):
    """One irreversible operation of a call."""

    verb: str
    kind: str
    name: str
    effect: ActEffect = ActEffect.DESTROYS

    def loss(self) -> Destruction:
        """Return it as an act; its badness by the names of operation and target."""
        target = f"{self.kind}={self.name}"
        return Destruction(self.verb, target, badness(self.verb, target), self.effect)


def inner_calls(args: JsonObject, action: str = "") -> list[tuple[str, JsonObject]]:
    """Return the calls in a dispatcher, each with its arguments; none for any other call."""
    found: list[tuple[str, JsonObject]] = []
    one = _call(args) or _flat_call(args, action)
    if one is not None:
        found.append(one)
    for name, value in args.items():
        listed = decoded(value)
        if isinstance(listed, list):
            for item in listed[:MAX_CALLS]:
                if isinstance(item, dict):
                    called = _call(item) or _flat_call(item, "")
                    if called is not None or name in _LISTS:
                        found.append(called if called is not None else ("", item))
        elif isinstance(listed, dict):
            called = _call(listed)
            if called is not None:
                found.append(called)
    return found[:MAX_CALLS]


def _flat_call(args: Mapping[str, Any], action: str) -> tuple[str, JsonObject] | None:
    """A call whose arguments are siblings of its name: `{"tool": "delete_asset", "asset_id": 1}`."""
    dispatches = not _DISPATCHES.isdisjoint(words(action))
    for key in (*_TOOL_NAMES, "name") if dispatches else _TOOL_NAMES:
        name = args.get(key)
        if (
            isinstance(name, str)
            and _ONE_WORD.fullmatch(name) is not None
            and len(words(name)) > 1
            and destroying_verb(name)
        ):
            return name[:512], {other: value for other, value in args.items() if other != key}
    return None


def telling(args: JsonObject) -> bool:
    """Return whether the arguments may have a destructive shape. Fast; false positives, no false negatives."""
    if not TELLING.isdisjoint(args) or "Action" in args:
        return True
    for key, value in args.items():
        if isinstance(value, str):
            if _BEGINS.match(value) is not None:
                return True
        elif isinstance(value, dict) or (isinstance(value, list) and value and isinstance(value[0], dict)):
            return True
        if _THING_TO_GO.fullmatch(key) is not None:
            return True
    return False


_BEGINS = expression_of("a text begins like a removal", re.IGNORECASE)


def texts(args: JsonObject) -> Iterator[tuple[str, str]]:
    """Return every text of the arguments that is not for people, with its argument's name."""
    for key, value in pairs(args):
        if isinstance(value, str) and len(value) > 5 and snake(key) not in _PROSE:
            yield key, value


def is_removal(text: str) -> bool:
    """Return whether a text begins like a command line that removes files."""
    return _REMOVAL.match(text) is not None


def programs(objects: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Return the texts of arguments named after a language, or after a program."""
    for inner in objects:
        for name in _PROGRAM_ARGS:
            value = inner.get(name)
            if isinstance(value, str):
                yield value
            elif isinstance(value, list) and value and all(isinstance(line, str) for line in value):
                yield "\n".join(value)


def _call(args: Mapping[str, Any]) -> tuple[str, JsonObject] | None:
    if _HOLDS_NAME.isdisjoint(args):
        return None
    name = next((args[n] for n in _NAMES if isinstance(args.get(n), str) and args[n]), None)
    if name is None:
        return None
    for key in _ARGUMENTS:
        inner = decoded(args.get(key))
        if isinstance(inner, dict):
            return str(name)[:512], inner
    return None


def operation(action: str, objects: Sequence[Mapping[str, Any]], *, weak: bool = False) -> str:
    """Return the destructive verb in an operation argument; empty if there is none.

    `weak`: the tool is unknown, so that a verb in any of its arguments counts.
    """
    last = "_".join(words(action)[-1:])
    for inner in objects:
        for key, value in inner.items():
            name = snake(key)
            if weak:
                verb = _named_verb(name, value, action)
                if verb:
                    return verb
            if isinstance(value, str):
                if name in _GONE_AT and value:
                    return "mark_deleted"
                if len(value) <= _MAX_WORD_CHARS and name in _OPERATIONS:
                    says = destroying_verb(value) or value.strip().lower() in _ALONE
                    verb = destroying_verb(f"{value.strip()}_{last}") if says else ""
                    if verb:
                        return verb
                elif name in _STATES and value.lower() in _GONE:
                    return "mark_deleted"
                if name in _OVERRIDE and value.upper() == "DELETE":
                    return "http_delete"
            elif value is True and name in _FLAGS:
                return "mark_deleted"
            elif isinstance(value, dict) and (name in ("delete", "remove") or name.startswith("delete_")):
                return name
    return ""


def _named_verb(name: str, value: Any, action: str) -> str:
    """`{"do": "delete"}`, `{"delete": "x"}`, `{"args": ["delete", "x"]}`, `{"input": "delete x"}`."""
    if isinstance(value, str) and len(value) <= 2 * _MAX_WORD_CHARS:
        if name in _VERB_FIELDS and _ONE_WORD.fullmatch(value) is not None and _TELLS.isdisjoint(words(action)):
            verb = destroying_verb(value)
            return "" if verb.endswith("ion") or verb == "removal" else verb
        commanded = _COMMANDED.fullmatch(value) if name in ("input", "args", "command", "text", "request") else None
        if commanded is not None and destroying_verb(commanded["verb"]):
            return commanded["verb"].lower()
    elif (
        isinstance(value, list)
        and name in ("args", "arguments", "argv", "params")
        and value
        and isinstance(value[0], str)
    ):
        verb = destroying_verb(value[0]) if " " not in value[0] else ""
        if verb:
            return verb
    to_go = _THING_TO_GO.fullmatch(name)
    if to_go is not None and value and (not isinstance(value, bool | int | float) or (name[:1] == "_" and value == 1)):
        return to_go["verb"]
    return ""


def http_delete(args: JsonObject, objects: Sequence[Mapping[str, Any]]) -> str:
    """Return the URL of a deleting request, by its method or its path; empty if it deletes nothing."""
    return (_deleted_by_method(args, objects) or _deleted_by_path(args))[:MAX_ID_CHARS]


def _place(args: Mapping[str, Any]) -> str:
    return next((str(args[name]) for name in _PLACES if isinstance(args.get(name), str)), "")


def _deleted_by_method(args: JsonObject, objects: Sequence[Mapping[str, Any]]) -> str:
    for inner in objects:
        if not any(isinstance(value, str) and value[:8].upper() == "DELETE" for value in inner.values()):
            continue
        fields = {snake(key): value for key, value in inner.items() if isinstance(value, str)}
        place = _place(inner) or _place(args)
        if place and any(fields.get(name, "").upper() == "DELETE" for name in _METHODS):
            return place
    return ""


def _deleted_by_path(args: JsonObject) -> str:
    place, changes = _place(args), _is_change(args)
    if not changes and _DOCUMENTATION.search(place) is not None:
        return ""
    if (changes or "url" in args or "uri" in args) and _DELETING_PLACE.search(place) is not None:
        return place
    if not changes:
        return ""
    by_query, last = _BY_QUERY.search(place), _LAST_OF_PLACE.search(place)
    if (by_query is not None and destroying_verb(by_query["verb"])) or (
        last is not None and destroying_verb(last["last"]) and ("://" in place or place.startswith("/"))
    ):
        about = ",".join(str(leaf) for leaf in leaves(decoded(args.get("json") or args.get("body"))))
        return f"{place} {about}".strip()
    return ""


def _is_change(args: JsonObject) -> bool:
    return any(isinstance(args.get(name), str) and args[name].upper() in _CHANGES for name in _METHODS)


def patched_away(args: JsonObject) -> list[str]:
    """Return the files that a patch in the arguments deletes."""
    for key in ("input", "patch", "diff", "content"):
        text = args.get(key)
        if isinstance(text, str) and "*** Delete File: " in text:
            return [found["file"].strip() for found in _DATA_PATCH.finditer(text)][:MAX_CALLS]
    return []
