"""What the calls of a program do: rules by the name of the call, of which the first that holds applies.

Misses: functions and methods with other names; arguments that are computed.
"""

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from haltline.detectors.commands.code import known_calls
from haltline.detectors.commands.code.targets import named_by
from haltline.detectors.commands.code.values import MAX_TEXTS, NONE, CallSite, CodeCall, Value
from haltline.detectors.commands.effects import methods, requests
from haltline.detectors.commands.model import OPENED, listed
from haltline.schemas import expressions as re
from haltline.schemas.tool_names import destroying_verb

_RENAMES = frozenset(listed("os.rename os.replace shutil.move fs.renameSync fs.rename File.rename FileUtils.mv"))
_LOST_THERE = re.compile(r"\A(?:/(?:var/)?tmp(?:/|$)|/dev/shm|.*/\.?Trash/)")
_DONE_WITH = frozenset(("ReceiptHandle", "receipt_handle", "Entries", "ack_ids", "ack_id", "lock_token"))
"""Arguments of calls that acknowledge a message."""
_HTTP = frozenset(("POST", "PUT", "PATCH"))
_BY_TEXT = frozenset(listed("array_map array_walk call_user_func call_user_func_array method send public_send"))
_RUN_NOTHING = frozenset(listed("getattr hasattr print isinstance callable patch mock.patch help"))
"""Functions that do not call a function that they are given."""
CLOSES = frozenset(("fclose", "closeSync", "close"))
_TREE_METHODS = frozenset(("rmtree", "deleteDir", "deleteRecursively"))
_WRITING_METHODS = ("write_text", "write_bytes", "writeFileSync")
_WRITING_FUNCTIONS = listed("""
    writeFileSync writeFile file_put_contents outputFileSync outputFile WriteAllText write_file writeTextFile
    writeTextFileSync
""")
_NOTHING = frozenset(("Buffer.alloc", "Buffer.from", "Uint8Array", "Blob", "TextEncoder.encode"))
"""Calls that return an empty value when called without arguments."""
_OF_TABLES = re.compile(r"\bTable\b|__table__|sequelize|schema", re.IGNORECASE)
_DELETES = re.compile(r"^(?:sqlalchemy\.)?delete\.\w|\w\.delete$")
_COMMAND = re.compile(r"\A\s*+(?:sudo\s+)?[\w./-]+(?:\s|$)")
_REQUESTS = re.compile(r"http|axios|faraday|\b(?:got|ky|session)\b", re.IGNORECASE)
"""Names of HTTP clients."""
_TOOL = re.compile(r"[A-Za-z][\w.-]{3,63}")


@dataclass(slots=True)
class Program:
    """What is known of the whole program when one of its calls is read."""

    own: frozenset[str] = frozenset()
    """Models whose tables the program itself creates."""
    reaches_out: bool = False
    """Whether the program has a client of a remote service."""
    names: dict[str, Value] = field(default_factory=dict)
    """The values of its variables, and what its imported names stand for."""


def meaning(call: CallSite, program: Program) -> list[CodeCall]:
    """Return what a call does; empty if it does nothing relevant.

    The kind `code` is a program that is executed, the kind `renamed` the new and old path of a file.
    """
    last = call.last
    rules = (*_OF_FILES.get(last, ()), _by_module_sh, _removes_path, _requests, *_OF_THINGS.get(last, ()))
    for rule in (_removes, _runs, *rules, _states, _takes_away, _sets):
        found = rule(call, program)
        if found is not None:
            return found
    return []


def passed_on(call: CallSite) -> CallSite | None:
    """Return the call of a function that is an argument, with the arguments after it: `map(os.remove, files)`."""
    if call.ref in _RUN_NOTHING:
        return None
    by_text = call.ref in _BY_TEXT
    for at, item in enumerate((*call.items, *(value for name, value in call.keywords.items() if name == "target"))):
        named = item.texts[0] if by_text and item.texts and not item.ref else item.ref
        if (item.texts and not by_text) or not (known_calls.is_removal(named) or named in known_calls.SHELLS):
            continue
        given = [call.keywords["args"]] if "args" in call.keywords else call.items[at + 1 :]
        if given or call.base:
            return CallSite(named, (), given or [Value(call.base)])
        return None
    return None


def _each(kind: str, name: str, texts: Iterable[str]) -> list[CodeCall]:
    return [CodeCall(kind, name, text) for text in tuple(texts)[:MAX_TEXTS]]


# Files, and what is executed


def _removes(call: CallSite, _: Program) -> list[CodeCall] | None:
    if not known_calls.is_removal(call.ref):
        return None
    kind = "path" if call.ref in known_calls.PATHS and "recursive" not in call.keywords else "tree"
    first = call.target
    return _each(kind, call.ref, first.texts or (f"${first.ref}" if first.ref else "$unknown",))


def _runs(call: CallSite, _: Program) -> list[CodeCall] | None:
    by_code = call.ref in known_calls.CODES
    if not (by_code or known_calls.is_shell(call.ref)):
        return None
    given = next((call.keywords[name] for name in ("args", "command", "cmd") if name in call.keywords), None)
    items = call.items or ([] if given is None else [given])
    texts = items[0].texts if items else ()
    if items and items[0].listed:
        texts = (shlex.join(texts),) if texts else ()
    elif len(items) > 1 and (
        known_calls.takes_words(call.ref) or (call.ref in ("system", "exec") and all(item.texts for item in items))
    ):
        words = [
            text.removeprefix("\0args\0")
            for item in items
            for text in item.texts
            if text[:1] != "\0" or text[:6] == "\0args\0"
        ]
        texts = (shlex.join(words[1:] if words[1:2] == words[:1] else words),)
    found = _each("code", call.ref, texts) if by_code else []
    found += _each("shell", call.ref, texts)
    return found if texts or not by_code else [*found, CodeCall("opaque", call.ref, "")]


def _unlinks(call: CallSite, _: Program) -> list[CodeCall] | None:
    if call.ref in ("Bun.file.delete", "Bun.file.unlink"):
        return _each("path", call.ref, call.base)
    if call.last == "delete":
        return None
    kind = "tree" if call.last in _TREE_METHODS else "path"
    texts = call.target.texts
    if kind == "path" and not call.base and texts[:1] and texts[0].startswith("/"):
        return _each(kind, call.last, texts)
    if call.base or not call.items:
        return _each(kind, call.last, call.base or (f"${call.ref.partition('.')[0]}",))
    return None


def _renames(call: CallSite, _: Program) -> list[CodeCall] | None:
    if call.ref in _RENAMES and call.first.texts and call.second.texts:
        old, new = call.first.texts[0], call.second.texts[0]
        found = [CodeCall("renamed", new, old)]
        if _LOST_THERE.match(new) and old.startswith(("/", "~")):
            found.append(CodeCall("away", "move_to_temporary", old))
        return found
    if (
        call.last in ("rename", "replace")
        and call.base
        and call.target.texts
        and call.ref.startswith(("Path", "pathlib"))
    ):
        return [CodeCall("renamed", call.target.texts[0], call.base[0])]
    return None


def _truncates(call: CallSite, _: Program) -> list[CodeCall] | None:
    if call.ref == "truncate" and call.target.texts and len(call.items) > 1:
        return _each("path", call.ref, call.target.texts)
    return _each("path", "truncate", call.base) if call.ref.startswith("open") else None


def _writes_nothing(call: CallSite, _: Program) -> list[CodeCall] | None:
    """`path.write_text("")`, `fs.writeFileSync(path, "")`."""
    first, second = call.target, call.second
    if first.texts == ("",) and (call.ref == "open_w.write" or (call.base and call.last in _WRITING_METHODS)):
        return _each("path", "truncate", call.base)
    blank = len(call.items) > 1 and (second.texts == ("",) or (second.ref in _NOTHING and not second.texts))
    is_function = call.last in _WRITING_FUNCTIONS or call.ref in ("File.write", "IO.write", "Bun.write")
    return _each("path", "truncate", first.texts) if blank and is_function and first.texts else None


def _closes(call: CallSite, _: Program) -> list[CodeCall] | None:
    if call.last in CLOSES and call.target.ref == "open_w":
        return _each("path", OPENED, call.target.texts)
    closes_own = call.ref == "open_w.close" or (call.ref == "open_w.end" and not call.items)
    return _each("path", OPENED, call.base) if closes_own else None


def _saves(call: CallSite, _: Program) -> list[CodeCall]:
    """Data frames written over a table or a folder, if an argument requests replacement."""
    requested = (call.keywords.get(name, NONE).texts for name in ("if_exists", "mode", "overwrite"))
    how = {text for texts in (call.base, *requested) for text in texts}
    name = (call.first if call.items else call.keywords.get("name", call.keywords.get("path", NONE))).texts
    if not name or how.isdisjoint(("replace", "overwrite")):
        return []
    if "/" in name[0]:
        return [CodeCall("tree", "overwrite", name[0])]
    return [CodeCall("thing", "replace_table", f"table={name[0]}")]


def _by_module_sh(call: CallSite, program: Program) -> list[CodeCall] | None:
    """`sh.rm("-rf", path)`: the functions of Python's module `sh` are programs."""
    if not call.ref.startswith("sh.") or program.names.get("sh", NONE).ref != "sh":
        return None
    return [CodeCall("shell", call.ref, shlex.join([call.last, *(text for item in call.items for text in item.texts)]))]


def _removes_path(call: CallSite, _: Program) -> list[CodeCall] | None:
    texts = call.target.texts
    return _each("tree", call.ref, texts) if call.ref in ("remove", "rm") and texts and "/" in texts[0] else None


# Requests, tools, statements and other things


def _requests(call: CallSite, _: Program) -> list[CodeCall] | None:
    texts = call.texts
    places = [text for text in texts if text.startswith(("http://", "https://", "/", "$"))]
    places += [text.rpartition("\0")[2] for text in texts if text.startswith(("\0url\0", "\0path\0"))]
    if not places:
        return None
    named = (*(call.items if call.last == "curl_setopt" else call.items[:1]), call.keywords.get("method", NONE))
    how = {text.upper() for value in named for text in value.texts if len(text) < 8}
    how |= {text.rpartition("\0")[2].upper() for text in texts if text.startswith("\0method\0")}
    if "DELETE" in how:
        return [CodeCall("url", "http_delete", places[0])]
    method = call.last.upper() if call.last.upper() in _HTTP else next(iter(how & _HTTP), "")
    if "://" not in places[0] or not method:
        return None
    body = " ".join(
        '"{}": "{}"'.format(*text.split("\0")[-2:]) if "\0" in text else text for text in texts if text != places[0]
    )
    return [CodeCall("request", method, places[0])] if requests.act(method, places[0], body) is not None else None


def _deletes_url(call: CallSite, _: Program) -> list[CodeCall] | None:
    starts = ("http://", "https://", "/" if _REQUESTS.search(call.ref) else "/api")
    texts = call.first.texts
    return _each("url", "http_delete", texts) if texts and texts[0].startswith(starts) else None


def _calls_tool(call: CallSite, _: Program) -> list[CodeCall] | None:
    name = call.first.texts[0] if call.first.texts else ""
    if not _TOOL.fullmatch(name) or not destroying_verb(name) or not (len(call.items) > 1 or call.keywords):
        return None
    return _each("thing", name, named_by(name, (), call.items[1:], call.keywords))


def _runs_elsewhere(call: CallSite, _: Program) -> list[CodeCall] | None:
    texts = call.first.texts
    if not any(map(_COMMAND.match, texts)):
        return None
    return [*_each("shell", call.ref, texts), *_each("sql", call.ref, texts)]


def _git(call: CallSite, _: Program) -> list[CodeCall] | None:
    if ".git." not in f".{call.ref}" or not call.first.texts:
        return None
    words = ["git", call.last, *(text for item in call.items for text in item.texts)]
    return [CodeCall("shell", call.ref, shlex.join(words))]


def _destroys_each(call: CallSite, _: Program) -> list[CodeCall] | None:
    """`records.each(&:destroy)`."""
    if not any(item.ref in ("destroy", "delete") for item in call.items):
        return None
    return [CodeCall("thing", "destroy_each", f"model={call.ref.partition('.')[0]}")]


def _runs_cell(call: CallSite, _: Program) -> list[CodeCall] | None:
    is_shell = len(call.items) > 2 and call.first.texts[:1] in (("bash",), ("sh",), ("script",))
    return _each("shell", call.ref, call.items[2].texts) if is_shell else None


def _states(call: CallSite, _: Program) -> list[CodeCall] | None:
    """A call that executes a statement, or the object that stands for one."""
    if not known_calls.runs_sql(call.ref):
        return None
    first, second = call.first, call.second
    if first.ref and not first.texts and _DELETES.search(first.ref) is not None:
        table = first.ref.removeprefix("sqlalchemy.").removeprefix("delete.").removesuffix(".delete")
        return [CodeCall("thing", "delete_rows", f"table={table}")]
    if not (first.texts or call.keywords or second.texts):
        return None
    found = _each("sql", call.ref, (text.rpartition("\0")[2] for text in first.texts or call.texts))
    return found + _each("sql", call.ref, second.texts[:1])  # in R, the connection comes first


def _takes_away(call: CallSite, program: Program) -> list[CodeCall] | None:
    if call.ref.partition(".")[0] in program.own or not _DONE_WITH.isdisjoint(call.keywords):
        return []
    verb = known_calls.takes_away(call.ref, named=bool(call.keywords))
    if not verb:
        return None
    drops = call.last in ("drop", "Drop")
    if drops and (call.items or call.keywords) and not _OF_TABLES.search(call.ref):
        return []
    return _each("thing", verb, named_by(call.ref, call.base, [] if drops else call.items, call.keywords))


def _sets(call: CallSite, program: Program) -> list[CodeCall]:
    """A client method that spends, sends, exposes, or sets a destructive option, by the tables of tools."""
    if not call.owner and not call.keywords and call.last != "mail" and not call.last.endswith("Command"):
        return []
    given = {
        name: value.texts[0] if value.texts else value.constant
        for name, value in call.keywords.items()
        if value.texts or value.constant
    }
    # `\0a\0\0b\0c` is c at the path a, b
    for text in call.texts:
        if "\0" in text:
            *outer, name, told = text.split("\0")
            given |= dict.fromkeys(filter(None, outer), "") | {name: told}
    first = call.first
    found = methods.of_method(
        methods.Method(
            call.owner,
            call.last,
            given,
            [text for item in call.items for text in item.texts[:1]],
            everything=bool(call.items) and (first.constant == "{}" or not (first.texts or first.ref)),
            reaches_out=program.reaches_out,
        )
    )
    if found is None:
        return []
    verb, effect = found
    by_args = not verb.startswith("update") or call.ref.endswith("update.values") or any(n[:1].isupper() for n in given)
    about = named_by(call.ref, call.base, call.items if by_args else [], call.keywords if by_args else {})
    return _each(f"act:{effect}", verb, about[:1])


_Rule = Callable[[CallSite, Program], list[CodeCall] | None]


def _by_method(*rules: tuple[_Rule, Iterable[str]]) -> dict[str, tuple[_Rule, ...]]:
    """Return the rules by the last part of a call's name, in order."""
    found: dict[str, tuple[_Rule, ...]] = {}
    for rule, names in rules:
        for name in names:
            found[name] = (*found.get(name, ()), rule)
    return found


_OF_FILES = _by_method(
    (_unlinks, listed("unlink rmdir rmtree deleteDir deleteRecursively delete")),
    (_renames, listed("rename replace move renameSync mv")),
    (_truncates, ("truncate",)),
    (_writes_nothing, ("write", *_WRITING_METHODS, *_WRITING_FUNCTIONS)),
    (_closes, (*CLOSES, "end")),
    (_saves, listed("to_sql saveAsTable insertInto save parquet csv json orc")),
)
_OF_THINGS = _by_method(
    (_deletes_url, ("delete", "Delete")),
    (_calls_tool, known_calls.CALLS_TOOLS),
    (_runs_elsewhere, known_calls.RUNS),
    (_git, listed("reset clean push checkout branch rm")),
    (_destroys_each, ("each", "find_each", "map", "for_each")),
    (_runs_cell, ("run_cell_magic",)),
)
