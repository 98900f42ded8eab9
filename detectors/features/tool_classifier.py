"""The classification of tool calls by the tool's name, its arguments and the policy."""

import shlex
from collections.abc import Iterable
from dataclasses import replace
from fnmatch import translate
from functools import lru_cache
from itertools import islice
from typing import Any

from haltline.detectors.commands import arguments, destructive_shapes, tool_name_severity
from haltline.detectors.commands.effects import rows
from haltline.detectors.commands.model import MAX_COMMAND_CHARS, Badness, Destruction
from haltline.detectors.commands.rows import words_of
from haltline.detectors.commands.shell.interpreter import invocations
from haltline.detectors.features import tool_effects
from haltline.detectors.features.tool import KnownTool
from haltline.schemas import expressions as re
from haltline.schemas import tools
from haltline.schemas.events import ActionEvent, Effect
from haltline.schemas.policy import Policy, Reading, Tool
from haltline.schemas.record import JsonObject
from haltline.schemas.tool_names import destroying_verb, folded, words

# Looked up for every event, which is slower as members of their class.
_EXEC, _WRITE, _READ, _NETWORK = Effect.EXEC, Effect.WRITE, Effect.READ, Effect.NETWORK
_SHELL, _SQL, _PLAIN = Reading.SHELL, Reading.SQL, Reading.PLAIN
BUILT_IN: tuple[Tool, ...] = tuple(
    Tool(match=glob, effect=group.effect, reading=Reading(group.runs or Reading.PLAIN))
    for group in tools.names()
    for glob in group.globs
)
"""The first match in this order applies."""
TARGET_ARGS = tools.arguments("target")
"""Arguments that name the target of an action, the most specific first."""
UNKNOWN = tool_name_severity.UNKNOWN
_QUALIFIED = ("database", "schema", "table")
_QUALIFIED_NAMES = frozenset(_QUALIFIED)
_PATH_ARGS = frozenset(tools.arguments("path"))
_TEXT_ARGS = {reading: tools.arguments(reading.value) for reading in Reading}
_LINES = frozenset(("commands", "statements", "queries", "cells"))
"""Lists of whole lines; any other list is one line's words."""
_ARGV_NAMES = ("args", "argv", "arguments")
_PROGRAM_NAMES = ("program", "executable", "cmd", "command", "binary")
_LANGUAGES = {
    "console": _SHELL,
    "bash": _SHELL, "sh": _SHELL, "shell": _SHELL, "zsh": _SHELL, "powershell": _SHELL, "pwsh": _SHELL, "cmd": _SHELL,
    "sql": _SQL, "postgresql": _SQL, "mysql": _SQL,
}  # fmt: skip
_PROGRAMS = words_of("tools that are programs")
"""Tools named after the program whose arguments they take."""
_MONGO = "mongosh --eval"
_MONGOS = frozenset(("mongo", "mongodb", "mongosh", "mongo_shell", "mongodb_shell", "mongo_eval"))
_FETCHERS = frozenset(("curl", "wget"))
_CODES = words_of("tools that run code")
_RUNNERS = words_of("tools that run something")
"""A tool name with one of these and a language runs code, whatever the argument is called."""
_COMMANDS = frozenset(("command", "cmd", "command_line", "commands", "argv"))
_CWD_ARGS = tools.arguments("cwd")
_CWD_NAMES = frozenset(_CWD_ARGS)
_MAX_ID_CHARS = 480
_MAX_CWD_CHARS = 1024
MAX_TARGETS = 256
"""For one event."""
_CACHED_NAMES = 4096
_NOT_KNOWN = KnownTool()
_DESTROYS = KnownTool(Effect.DESTRUCTIVE)
_BY_VERB = frozenset((None, Effect.WRITE, Effect.NETWORK, Effect.MUTATE))
"""Effects that a destructive verb in the tool's name overrides."""
_LOOKS = frozenset((Effect.READ, Effect.POLL, Effect.NETWORK))
_CHANGES = KnownTool(Effect.MUTATE)
_AND = frozenset(("and", "or", "then"))
_ACTING = (words_of("verbs that make things") | words_of("verbs that change settings") | {"replace", "merge"}) - {
    "open",
    "load",
}
RUNS = {reading.value: KnownTool(Effect.EXEC, reading) for reading in Reading}
"""Tools that execute something, by the reading of their text."""
_GUESSES = (
    ("command", "shell"), ("cmd", "shell"), ("command_line", "shell"), ("commands", "shell"), ("bash", "shell"),
    ("cli_command", "shell"), ("shell", "shell"), ("argv", "shell"), ("script", "shell"), ("sql", "sql"),
    ("statement", "sql"),
    ("statements", "sql"), ("sql_text", "sql"), ("code", "plain"), ("cell", "plain"),
)  # fmt: skip
"""Arguments that determine the reading of an unknown tool."""
_BY_QUERY = re.compile(r"(?:^|_)(?:delete|purge|truncate)_")
_LAST_PART = re.compile(r"__|[./:]")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update) File: (?P<file>.+)$", re.MULTILINE)
"""The files that a patch writes."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


_HOLD_ITEMS = frozenset(("collection", "table"))
_ITEMS = ("id", "row_id", "document_id", "doc_id", "record_id", "item_id", "entity_id")
"""Arguments that name one of what a collection or a table holds: `collection=drafts/d1`."""


class Classifier:
    """Reads tools and targets by one policy. Its only state is a bounded cache of tool names."""

    def __init__(self, policy: Policy) -> None:
        self._tools = [
            (re.compile_given(rf"\A{translate(t.match.lower())}"), KnownTool(t.effect, t.reading, t.loop_key))
            for t in (*policy.tools, *BUILT_IN)
        ]
        self._own = len(policy.tools)
        """The number of the policy's own tools, which take precedence."""
        names = dict.fromkeys((*policy.target_args, *TARGET_ARGS))
        self._target_ranks = {name: rank for rank, name in enumerate(names)}
        self._own_targets = frozenset(policy.target_args)
        self._scratch = tuple(re.compile_given(rf"\A{translate(glob.lower())}") for glob in policy.scratch or ())
        self._rows = rows.table("\n".join(policy.rows)) if policy.rows else None
        self._by_name: dict[str, KnownTool] = {}
        self._by_use: dict[tuple[str, tools.Operation | None], KnownTool] = {}

    def tool(self, action: str) -> KnownTool:
        """Return the known properties of a tool by its name; an unknown one has no effect."""
        known = self._by_name.get(action)
        if known is None:
            if len(self._by_name) >= _CACHED_NAMES:
                self._by_name.clear()
            known = self._by_name[action] = self._look_up(action)
        return known

    def acts(self, command: str, cwd: str | None) -> tuple[Destruction, ...]:
        """Return the acts of a command line by the policy's own rows."""
        if self._rows is None:
            return ()
        text = command[:MAX_COMMAND_CHARS]
        return tuple(act for one in invocations(text, cwd=cwd) for act in rows.acts(self._rows, one))

    def _look_up(self, action: str) -> KnownTool:
        plain = folded(action).strip()
        snake = "_".join(words(plain))
        names = _spellings(action)
        known, place = _NOT_KNOWN, 0
        loop_key: tuple[str, ...] | None = None
        for at, (pattern, tool) in enumerate(self._tools):
            if not any(map(pattern.match, names)):
                continue
            if loop_key is None and tool.loop_key is not None and tool.effect is None and tool.reading is _PLAIN:
                loop_key = tool.loop_key  # only the loop key is declared: the other properties are determined below
                continue
            known, place = tool, at
            break
        program = short_name(plain).removeprefix("run_").removesuffix("_cli")
        stored = next((tool_effects.STORES[word] for word in words(plain) if word in tool_effects.STORES), "")
        if stored and not tool_effects.only_looks(plain) and not destroying_verb(action):
            known = KnownTool(_EXEC, _SHELL, program=stored)
        elif known.effect is None and program in _MONGOS:
            known = KnownTool(_EXEC, _SHELL, program=_MONGO)
        elif known.effect is None and program in _PROGRAMS:
            known = KnownTool(_EXEC, _SHELL, program="redis-cli" if program == "redis" else program)
        elif (
            place >= self._own
            and (known.effect in _BY_VERB or _asks_to_delete(known, snake))
            and destroying_verb(action)
        ):
            known = _DESTROYS
        elif place >= self._own and known.effect in _LOOKS and (acts := _acts_too(words(short_name(plain)))):
            known = acts
        return known if loop_key is None else replace(known, loop_key=loop_key)

    def _described(self, action: str, use: tools.Operation | None) -> KnownTool:
        """Return the properties of a described tool; of its name alone, where a call has no arguments."""
        tool = self._by_name.get(action) or self.tool(action)
        effect, runs = tools.effect_of(action) if use is None else (use.effect, use.runs)
        if effect is None or self.is_declared(action):
            known = replace(tool, use=use)
        else:
            known = KnownTool(effect, Reading(runs or _PLAIN), tool.loop_key, use)
        if len(self._by_use) >= _CACHED_NAMES:
            self._by_use.clear()
        self._by_use[action, use] = known
        return known

    def is_declared(self, action: str) -> bool:
        """Return whether the policy says what a tool does."""
        own = self._tools[: self._own]
        return any(tool.effect is not None and any(map(pattern.match, _spellings(action))) for pattern, tool in own)

    def tool_of(self, action: str, args: JsonObject | None) -> KnownTool:
        """Return the known properties of a call's tool; those of an unknown tool are inferred from the arguments."""
        use = tools.operation_of(action, args) if args else None
        if use is not None or not args:
            return self._by_use.get((action, use)) or self._described(action, use)
        tool = self._by_name.get(action) or self.tool(action)
        if tool.effect is not None and (tool.effect is not _EXEC or tool.reading is _SHELL):
            return tool
        if tool.effect is _NETWORK and action.lower() in _FETCHERS and ("args" in args or "command" in args):
            return KnownTool(_EXEC, _SHELL, program=action.lower())
        if tool.effect is _EXEC:
            return _by_language(args, tool)
        if tool.effect is None:
            if _runs_code(words(action)) and _COMMANDS.isdisjoint(args):
                return KnownTool(_EXEC, _PLAIN, tool.loop_key)
            for name, reading in _GUESSES:
                value = args.get(name)
                if isinstance(value, str) or (value and isinstance(value, list) and isinstance(value[0], str)):
                    is_operation = (
                        isinstance(value, str)
                        and " " not in value.strip()
                        and (destroying_verb(value) != "" or tool_effects.names_an_act(f"{value}_{action}"))
                    )
                    if is_operation or destructive_shapes.inner_calls(args, action):
                        return tool
                    known = _by_language(args, RUNS[reading])
                    return known if tool.loop_key is None else replace(known, loop_key=tool.loop_key)
        return tool

    def targets(self, event: ActionEvent, use: tools.Operation | None = None) -> tuple[str, ...]:
        """Return the targets of the event, in canonical form; `unknown` if it has none.

        `use`: the described operation that the call is one of.
        """
        declared = event.targets
        if declared:
            return tuple(declared) if len(declared) == 1 else tuple(dict.fromkeys(declared[:MAX_TARGETS]))
        args = event.args
        if not args:
            return (UNKNOWN,)
        if use is not None and self._own_targets.isdisjoint(args):
            named = self._named(use, args, cwd_of(event))
            if named or use.known.issuperset(args):
                return named or (UNKNOWN,)
        if not _QUALIFIED_NAMES.isdisjoint(args):
            parts = [f"{name}={args[name]}" for name in _QUALIFIED if is_id(args.get(name))]
            if parts:
                return (_with_item(event.action, ",".join(parts), args),)
        ranks = self._target_ranks
        names = ranks.keys() & args.keys()
        ordered = sorted(names, key=ranks.__getitem__) if len(names) > 1 else names
        named = _first_named(ordered, args, cwd_of(event)) or (UNKNOWN,)
        return (_with_item(event.action, named[0], args),) if len(named) == 1 else named

    def _named(self, use: tools.Operation, args: JsonObject, cwd: str | None) -> tuple[str, ...]:
        named = _first_named(use.target, args, cwd)
        if named or not use.patch:
            return named
        text = next((args[name] for name in use.patch if isinstance(args.get(name), str)), "")
        found = (tool_name_severity.target("path", match["file"].strip(), cwd) for match in _PATCHED.finditer(text))
        return tuple(dict.fromkeys(islice(found, MAX_TARGETS)))

    def without_scratch(self, found: tuple[Destruction, ...]) -> tuple[Destruction, ...]:
        """Return the acts; SCRATCH are those on targets whose loss is none by the policy."""
        if not self._scratch:
            return found
        return tuple(
            replace(one, badness=Badness.SCRATCH)
            if any(pattern.match(one.target.lower()) for pattern in self._scratch)
            else one
            for one in found
        )

    def things(self, args: JsonObject | None, cwd: str | None) -> tuple[str, ...]:
        """Return the targets of a destructive call, anywhere in its arguments."""
        found = arguments.things(args, self._target_ranks)
        return tuple(
            dict.fromkeys(
                tool_name_severity.target("path" if kind in _PATH_ARGS else kind, name, cwd) for kind, name in found
            )
        )[:MAX_TARGETS]


def _with_item(action: str, target: str, args: JsonObject) -> str:
    """Return the target; if a call is about one of what it holds, with the item's name."""
    kind = target.rpartition(",")[2].partition("=")[0]
    if kind not in _HOLD_ITEMS or kind in words(action):
        return target
    item = next((args[name] for name in _ITEMS if is_id(args.get(name))), None)
    return target if item is None else f"{target}/{item}"


def _first_named(names: Iterable[str], args: JsonObject, cwd: str | None) -> tuple[str, ...]:
    """Return the targets in the first of these arguments that names any."""
    for name in names:
        value = args.get(name)
        kind = "path" if name in _PATH_ARGS else name
        if is_id(value):
            return (tool_name_severity.target(kind, value, cwd),)
        if isinstance(value, list) and value and all(is_id(item) for item in value):
            return tuple(dict.fromkeys(tool_name_severity.target(kind, item, cwd) for item in value[:MAX_TARGETS]))
    return ()


def _spellings(action: str) -> tuple[str, ...]:
    # The last part of `mcp__warehouse__drop_table`, `catalog.delete_asset` and `fs/readFile` is the name.
    plain = folded(action).strip()
    return action.lower(), snake_case(plain), short_name(plain), "_".join(words(plain))


def _acts_too(parts: tuple[str, ...]) -> KnownTool | None:
    """Return what a tool is that reads and then does something, such as `get_and_remove` or `find_or_create`."""
    for at, word in enumerate(parts[1:-1], 1):
        if word in _AND:
            if destroying_verb("_".join(parts[at + 1 :])):
                return _DESTROYS
            if parts[at + 1] in _ACTING:
                return _CHANGES
    return None


def _runs_code(named: tuple[str, ...]) -> bool:
    return not _CODES.isdisjoint(named) and not _RUNNERS.isdisjoint(named)


def _asks_to_delete(known: KnownTool, name: str) -> bool:
    """Return whether a tool such as `delete_by_query` deletes, instead of running a statement."""
    return known.reading is _SQL and _BY_QUERY.search(name) is not None


def _by_language(args: JsonObject, tool: KnownTool) -> KnownTool:
    for name in ("language", "lang", "kernel", "interpreter", "shell"):
        language = args.get(name)
        if isinstance(language, str) and language.lower() in _LANGUAGES:
            known = RUNS[_LANGUAGES[language.lower()]]
            return known if tool.loop_key is None else replace(known, loop_key=tool.loop_key)
    return tool


def text_of(args: JsonObject | None, tool: KnownTool, depth: int = 0) -> str:
    """Return the command line, statement or program that a tool executes; empty if the arguments have none."""
    if not args:
        return ""
    line = args.get("command") if tool.reading is _SHELL else None
    if isinstance(line, str) and " " in line:  # the most common case; `command` is the first of the arguments in order
        return _of_program(line, tool)
    names = _TEXT_ARGS[tool.reading]
    for name in names if tool.use is None else (*tool.use.text, *names):
        value = args.get(name)
        if isinstance(value, str):
            return _with_words(name, value, args, tool) if tool.reading is _SHELL else value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            if name in _LINES:
                return (";\n" if tool.reading is _SQL else "\n").join(value)
            return "\n".join(value) if tool.reading is _PLAIN else _of_program(shlex.join(value), tool)
    return _text_within(args, tool, depth) if depth < arguments.MAX_DEPTH else ""


def _text_within(args: JsonObject, tool: KnownTool, depth: int) -> str:
    """Return the text in an object or a list of objects: `{"cell": {"source": [...]}}`."""
    for value in args.values():
        for inner in value[:MAX_TARGETS] if isinstance(value, list) else (value,):
            text = text_of(inner, tool, depth + 1) if isinstance(inner, dict) else ""
            if text:
                return text
    if depth == 0 and tool.reading is _SHELL:
        return next(
            (
                _of_program(text, tool)
                for _, text in destructive_shapes.texts(args)
                if destructive_shapes.is_removal(text)
            ),
            "",
        )
    return ""


def _with_words(name: str, value: str, args: JsonObject, tool: KnownTool) -> str:
    """Return a command line, including its arguments if they are separate (`cmd`, `args`)."""
    if name in _PROGRAM_NAMES and " " not in value:
        for words_name in _ARGV_NAMES:
            listed = args.get(words_name)
            if isinstance(listed, list) and listed and all(isinstance(word, str) for word in listed):
                return _of_program(shlex.join([value, *listed]), tool)
    return _of_program(value, tool)


def _of_program(text: str, tool: KnownTool) -> str:
    if not tool.program or text.lstrip().startswith(tool.program):
        return text
    if tool.program == _MONGO:
        return f"{_MONGO} {shlex.quote(text)}"
    return f"{tool.program} {text}"


@lru_cache(maxsize=4096)
def short_name(action: str) -> str:
    """Return the last part of a tool's name in snake case: `drop_table` of `mcp__warehouse__dropTable`."""
    return _LAST_PART.split(snake_case(action))[-1]


def snake_case(action: str) -> str:
    """Return a name in snake case."""
    return _CAMEL.sub("_", action).lower().replace("-", "_")


def cwd_of(event: ActionEvent) -> str | None:
    """Return the working directory in the event's arguments, or None."""
    args = event.args
    if not args or _CWD_NAMES.isdisjoint(args):
        return None
    for name in _CWD_ARGS:
        if isinstance(args.get(name), str):
            return args[name] if 0 < len(args[name]) <= _MAX_CWD_CHARS else None
    return None


def is_id(value: Any) -> bool:
    """Return whether a value can be the id of a thing: a short text or an integer."""
    return (isinstance(value, str) and 0 < len(value) <= _MAX_ID_CHARS) or (
        isinstance(value, int) and not isinstance(value, bool)
    )
