"""What the calls of a program do, by the kinds of calls in `known_calls`: the first rule that holds applies.

Misses: functions and methods with other names; arguments that are computed.
"""

import shlex
from collections.abc import Iterable

from haltline.detectors.commands.code.known_calls import kinds, removes_or_runs, takes_away
from haltline.detectors.commands.code.targets import named_by
from haltline.detectors.commands.code.values import MAX_TEXTS, NONE, Call, CodeCall
from haltline.detectors.commands.effects import methods, requests
from haltline.detectors.commands.model import listed
from haltline.schemas import expressions as re
from haltline.schemas.tool_names import destroying_verb

_LOST_THERE = re.compile(r"\A(?:/(?:var/)?tmp(?:/|$)|/dev/shm|.*/\.?Trash/)")
_DONE_WITH = frozenset(("ReceiptHandle", "receipt_handle", "Entries", "ack_ids", "ack_id", "lock_token"))
"""Arguments of calls that acknowledge a message."""
_HTTP = frozenset(("POST", "PUT", "PATCH"))
_RUN_NOTHING = frozenset(listed("getattr hasattr print isinstance callable patch mock.patch help"))
"""Functions that do not call a function that they are given."""
_NOTHING = frozenset(("Buffer.alloc", "Buffer.from", "Uint8Array", "Blob", "TextEncoder.encode"))
"""Calls that return an empty value when called without arguments."""
_EMPTIES_BUCKET = re.compile(r"bucket\w{0,40}\.(?:objects|object_versions)(?:\.all)?\.delete$", re.IGNORECASE)
_OF_TABLES = re.compile(r"\bTable\b|__table__|sequelize|schema", re.IGNORECASE)
_DELETES = re.compile(r"^(?:sqlalchemy\.)?delete\.\w|\w\.delete$")
_COMMAND = re.compile(r"\A\s*+(?:sudo\s+)?[\w./-]+(?:\s|$)")
_REQUESTS = re.compile(r"http|axios|faraday|\b(?:got|ky|session)\b", re.IGNORECASE)
"""Names of HTTP clients."""
_TOOL = re.compile(r"[A-Za-z][\w.-]{3,63}")


def meaning(call: Call, reaches_out: bool) -> list[CodeCall]:
    """Return what a call does; empty if it does nothing relevant.

    The kind `code` is a program that is executed, the kind `renamed` the new and old path of a file. `reaches_out`:
    the program has a client of a remote service.
    """
    what = kinds(call.ref)
    for found in (
        _of_files(call, what),
        _runs(call, what),
        _requests(call),
        _of_things(call, what),
        _states(call, what),
    ):
        if found is not None:
            return found
    return _takes_away(call) or _sets(call, reaches_out)


def passed_on(call: Call) -> Call | None:
    """Return the call of a function that is an argument, with the arguments after it: `map(os.remove, files)`."""
    if call.ref in _RUN_NOTHING:
        return None
    for at, item in enumerate((*call.items, *(call.named[name] for name in ("target",) if name in call.named))):
        by_text = call.ref in ("array_map", "array_walk", "call_user_func") and item.texts
        name = item.texts[0] if by_text else item.ref
        if (item.texts and not by_text) or not removes_or_runs(name):
            continue
        given = [call.named["args"]] if "args" in call.named else call.items[at + 1 :]
        return Call(name, (), given or [NONE._replace(texts=call.base)]) if given or call.base else None
    return None


def _each(kind: str, name: str, texts: Iterable[str]) -> list[CodeCall]:
    return [CodeCall(kind, name, text) for text in tuple(texts)[:MAX_TEXTS]]


def _of_files(call: Call, what: frozenset[str]) -> list[CodeCall] | None:
    target, texts = call.target, call.target.texts
    is_tree = "tree" in what or "recursive" in call.named
    if not what.isdisjoint(("path", "tree")) and not (call.base and "of_path" in what and not target.texts):
        texts = tuple(text for text in texts if not text.startswith("-")) or texts
        if texts and all(text.startswith("-") for text in texts) and len(call.items) > 1:
            texts = call.items[1].texts
        return _each("tree" if is_tree else "path", call.last, texts or (f"${target.ref or 'unknown'}",))
    if "of_path" in what and (call.base or not call.items or any(text.startswith("/") for text in texts)):
        kind = "path" if call.last in ("unlink", "rmdir", "delete") else "tree"
        return _each(kind, call.last, call.base or texts or (f"${call.ref.partition('.')[0]}",))
    if "any_path" in what and texts and "/" in texts[0]:
        return _each("tree", call.last, texts)
    if "moves" in what and len(call.items) > 1 and call.first.texts and call.items[1].texts:
        old, new = call.first.texts[0], call.items[1].texts[0]
        lost = _LOST_THERE.match(new) and old.startswith(("/", "~"))
        return [CodeCall("renamed", new, old), *_each("away", "move_to_temporary", [old] if lost else [])]
    if call.last == "truncate" and (call.ref == "truncate" or call.ref.startswith("open")):
        return _each("path", "truncate", texts if call.ref == "truncate" and len(call.items) > 1 else call.base)
    if "empties" in what:
        return _written(call)
    return _saved(call) if "saves" in what else None


def _written(call: Call) -> list[CodeCall] | None:
    """`path.write_text("")`, `fs.writeFileSync(path, "")`."""
    if call.base and len(call.items) == 1 and call.first.texts == ("",):
        return _each("path", "truncate", call.base)
    second = call.items[1] if len(call.items) > 1 else NONE
    blank = second.texts == ("",) or (second.ref in _NOTHING and not second.texts)
    return _each("path", "truncate", call.first.texts) if len(call.items) > 1 and blank else None


def _saved(call: Call) -> list[CodeCall]:
    """Data frames written over a table or a folder, if an argument requests replacement."""
    requested = (call.named.get(name, NONE).texts for name in ("if_exists", "mode", "overwrite"))
    how = {text for texts in (call.base, *requested) for text in texts}
    name = (call.first if call.items else call.named.get("name", call.named.get("path", NONE))).texts
    if not name or how.isdisjoint(("replace", "overwrite")):
        return []
    return (
        [CodeCall("tree", "overwrite", name[0])]
        if "/" in name[0]
        else [CodeCall("thing", "replace_table", f"table={name[0]}")]
    )


def _runs(call: Call, what: frozenset[str]) -> list[CodeCall] | None:
    if what.isdisjoint(("shell", "words", "code", "git")):
        return None
    given = next((call.named[name] for name in ("args", "command", "cmd") if name in call.named), NONE)
    items = call.items or [given]
    texts = items[0].texts
    if "git" in what:
        return _each("shell", call.ref, [shlex.join(["git", call.last, *call.texts])]) if call.texts else None
    if items[0].listed:
        texts = (shlex.join(texts),) if texts else ()
    elif (len(items) > 1 or given.texts) and (
        "words" in what or (call.last in ("system", "exec") and all(item.texts for item in items))
    ):
        words = [text for item in items for text in item.texts]
        words += given.texts if items[0] is not given else ()
        texts = (shlex.join(words[1:] if words[1:2] == words[:1] else words),)
    elif items[0].texts[:1] and call.last in ("system", "exec") and len(texts) > 1:
        texts = (shlex.join(texts),)
    found = _each("code", call.ref, texts) if "code" in what else []
    found += _each("shell", call.ref, texts)
    return found if texts or "code" not in what else [CodeCall("opaque", call.ref, "")]


def _requests(call: Call) -> list[CodeCall] | None:
    texts = call.texts
    places = [text for text in texts if text.startswith(("http://", "https://", "/", "$"))]
    if not places:
        return None
    starts = ("http://", "https://", "/" if _REQUESTS.search(call.ref) else "/api")
    if call.last in ("delete", "Delete") and call.first.texts and call.first.texts[0].startswith(starts):
        return _each("url", "http_delete", call.first.texts)
    named = (*(call.items if call.last == "curl_setopt" else call.items[:1]), call.named.get("method", NONE))
    how = {text.upper() for value in named for text in value.texts if len(text) < 8}
    if "DELETE" in how:
        return [CodeCall("url", "http_delete", places[0])]
    method = call.last.upper() if call.last.upper() in _HTTP else next(iter(how & _HTTP), "")
    if "://" not in places[0] or not method:
        return None
    fields = (f'"{key}": "{value.texts[0] if value.texts else value.constant}"' for key, value in call.named.items())
    body = " ".join((*fields, *(text for item in call.items[1:] for text in item.texts)))
    return [CodeCall("request", method, places[0])] if requests.act(method, places[0], body) is not None else None


def _of_things(call: Call, what: frozenset[str]) -> list[CodeCall] | None:
    texts = call.first.texts
    name = texts[0] if texts else ""
    if "tool" in what and _TOOL.fullmatch(name) and destroying_verb(name) and (len(call.items) > 1 or call.named):
        return _each("thing", name, named_by(name, (), call.items[1:], call.named))
    if "remote" in what and any(map(_COMMAND.match, texts)):
        return [*_each("shell", call.ref, texts), *_each("sql", call.ref, texts)]
    if call.last in ("each", "find_each", "map", "for_each") and any(
        item.ref in ("destroy", "delete") for item in (*call.items, *call.named.values())
    ):  # `records.each(&:destroy)`
        return [CodeCall("thing", "destroy_each", f"model={call.ref.partition('.')[0]}")]
    if call.last == "run_cell_magic" and len(call.items) > 2 and name in ("bash", "sh", "script"):
        return _each("shell", call.ref, call.items[2].texts)
    return None


def _states(call: Call, what: frozenset[str]) -> list[CodeCall] | None:
    """A call that executes a statement, or the object that stands for one."""
    if "sql" not in what:
        return None
    first = call.first
    if first.ref and not first.texts and _DELETES.search(first.ref) is not None:
        table = first.ref.removeprefix("sqlalchemy.").removeprefix("delete.").removesuffix(".delete")
        return [CodeCall("thing", "delete_rows", f"table={table}")]
    return _each("sql", call.ref, call.texts[:3]) or None  # in R, the connection comes first


def _takes_away(call: Call) -> list[CodeCall]:
    if _EMPTIES_BUCKET.search(call.ref) is not None:
        return _each(
            "thing",
            "empty_bucket",
            [f"bucket={name.partition('=')[2]}" for name in named_by(call.ref, call.base, [], {})],
        )
    verb = takes_away(call.ref, named=bool(call.named)) if _DONE_WITH.isdisjoint(call.named) else ""
    drops = call.last in ("drop", "Drop")
    if not verb or (drops and (call.items or call.named) and not _OF_TABLES.search(call.ref)):
        return []
    return _each("thing", verb, named_by(call.ref, call.base, [] if drops else call.items, call.named))


def _sets(call: Call, reaches_out: bool) -> list[CodeCall]:
    """A client method that spends, sends, exposes, or sets a destructive option, by the tables of tools."""
    if not call.owner and not call.named and call.last != "mail" and not call.last.endswith("Command"):
        return []
    given = {name: value.texts[0] if value.texts else value.constant for name, value in call.named.items()}
    first = call.first
    found = methods.of_method(
        methods.Method(
            call.owner,
            call.last,
            given,
            [text for item in call.items for text in item.texts[:1]],
            everything=bool(call.items) and (first.constant == "{}" or not (first.texts or first.ref or first.named)),
            reaches_out=reaches_out,
        )
    )
    if found is None:
        return []
    verb, effect = found
    by_args = not verb.startswith("update") or call.ref.endswith("update.values") or any(n[:1].isupper() for n in given)
    about = named_by(call.ref, call.base, call.items if by_args else [], call.named if by_args else {})
    return _each(f"act:{effect}", verb, about[:1])
