"""The classification of tool calls by the tool's name, its arguments and the policy."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import translate
from functools import lru_cache
from typing import Any

from haltline.detectors.commands import (
    Badness,
    Destruction,
    begins_with_program,
    code_destructions,
    creations,
    destructions,
    destructive_shapes,
    file_destructions,
    files_run,
    files_written,
    graphql,
    remakers,
    sql_destructions,
)
from haltline.detectors.commands import (
    is_read_whole as text_is_read_whole,
)
from haltline.detectors.commands import may_create as text_may_create
from haltline.detectors.commands import renames as shell_renames
from haltline.detectors.commands.code_creations import code_creations
from haltline.detectors.commands.effects.requests import is_own_server
from haltline.detectors.commands.model import BLANK, LOSSES, ActEffect, as_row, of_row
from haltline.detectors.commands.paths import badness as path_badness
from haltline.detectors.commands.prefilter import may_destroy_by_code
from haltline.detectors.commands.sql import sql_creations, sql_renames
from haltline.detectors.commands.step_budget import StepBudget
from haltline.detectors.commands.surroundings import names_tests
from haltline.detectors.features import command_effects, tool_effects, tool_name_severity
from haltline.detectors.features.observation_protocol import ToolCall
from haltline.detectors.features.tool import KnownTool
from haltline.detectors.features.working_state import nobody_misses
from haltline.schemas.events import ActionEvent, Effect
from haltline.schemas.policy import Policy, Reading, Tool
from haltline.schemas.record import JsonObject
from haltline.schemas.tool_names import destroying_verb, folded, is_recreatable, words

# Looked up for every event; as members of their class they take ten times as long.
_EXEC, _DESTRUCTIVE, _WRITE, _POLL, _READ = Effect.EXEC, Effect.DESTRUCTIVE, Effect.WRITE, Effect.POLL, Effect.READ
_NETWORK = Effect.NETWORK
_SHELL, _SQL, _PLAIN = Reading.SHELL, Reading.SQL, Reading.PLAIN

BUILT_IN: tuple[Tool, ...] = (
    *(Tool(match=name, effect=Effect.EXEC, reading=Reading.SHELL) for name in (
        "bash", "sh", "shell", "zsh", "execute_bash", "execute_command", "run_command", "run_shell_command",
        "run_terminal_cmd", "run_terminal_command", "terminal", "local_shell", "exec_command", "exec", "cmd",
        "run_shell", "shell_command", "bash_tool", "command", "run_commands", "run_bash*", "powershell", "pwsh",
        "run_powershell*", "send_keys", "terminal_*", "type_keys", "write_stdin", "execute", "run_process",
        "subprocess",
    )),
    *(Tool(match=name, effect=Effect.EXEC, reading=Reading.SQL) for name in (
        "sql", "sql_*", "*_sql", "query", "*_query", "query_database", "query_db", "run_queries", "execute_queries",
    )),
    *(Tool(match=name, effect=Effect.READ) for name in (
        "python*_docs*", "python*_search*", "python*_lint*", "lint_*", "*_lint", "*_linter",
    )),
    *(Tool(match=name, effect=Effect.WRITE) for name in (
        "python*_format*", "format_python*", "format_js*", "format_code*",
    )),
    *(Tool(match=name, effect=Effect.EXEC) for name in (
        "run_code", "execute_code", "run_python*", "execute_python*", "python*", "ipython", "code_interpreter",
        "execute_ipython_cell", "run_tests", "test", "run_javascript*", "run_js*", "run_node*", "run_ruby*", "run_r",
        "run_go*", "run_rust*", "run_java", "run_c", "run_cpp", "run_php*", "run_perl*", "jupyter*",
        "notebook_execute*", "notebook_run*",
        "run_cell", "execute_cell", "repl", "*_repl", "interpreter",
    )),
    *(Tool(match=name, effect=Effect.DESTRUCTIVE) for name in (
        "delete_*", "drop_*", "truncate_*", "destroy_*", "purge_*", "wipe_*", "erase_*", "*_delete", "*_drop",
        "bulk_delete*", "batch_delete*", "hard_delete*", "delete", "drop", "truncate", "destroy", "purge", "wipe",
    )),
    *(Tool(match=name, effect=Effect.NETWORK) for name in ("post_status", "*_post_status", "publish_status")),
    *(Tool(match=name, effect=Effect.MUTATE) for name in ("update_*status", "set_*status", "change_*status")),
    *(Tool(match=name, effect=Effect.POLL) for name in (
        "wait_*", "poll_*", "*_status", "check_status*", "task_output", "bash_output", "wait", "poll", "sleep",
    )),
    *(Tool(match=name, effect=Effect.READ) for name in (
        "get_*", "list_*", "read_*", "search_*", "find_*", "describe_*", "show_*", "view_*", "fetch_*", "count_*",
        "read", "grep", "glob", "ls", "view", "search", "think", "say", "web_search", "web_fetch", "calculat*",
        "check_*", "open_*", "query_*", "select_*",
    )),
    *(Tool(match=name, effect=Effect.MUTATE) for name in (
        "update_*", "set_*", "remove_*", "modify_*", "cancel_*", "move_*", "rename_*", "replace_*", "terminate_*",
    )),
    *(Tool(match=name, effect=Effect.WRITE) for name in (
        "create_*", "write_*", "edit_*", "add_*", "write", "edit", "multi_edit", "notebook_edit", "str_replace*",
        "insert_*", "apply_patch", "apply_*", "save_*", "upload_*", "make_*", "createfile", "writefile", "editfile",
        "mkdir", "makedirs",
    )),
    *(Tool(match=name, effect=Effect.NETWORK) for name in ("http_*", "send_*", "post_*", "web*", "curl", "request*")),
)  # fmt: skip
"""The first match in this order applies. `delete_*`, `drop_*` and `truncate_*` are TapPass's own three."""

TARGET_ARGS = (
    "asset_id", "database", "schema", "table", "dataset", "bucket", "collection", "index", "queue", "topic",
    "namespace", "resource_id", "record_id", "user_id", "path", "file_path", "filename", "file", "key", "name", "id",
    "paths", "file_paths", "directory", "dir", "folder",
)  # fmt: skip
"""Arguments that name the target of an action, the most specific first."""

UNKNOWN = "unknown"
"""The target of an event without one."""

_QUALIFIED = ("database", "schema", "table")
_QUALIFIED_NAMES = frozenset(_QUALIFIED)
_PATH_ARGS = frozenset(
    {
        "path",
        "file_path",
        "filepath",
        "target_file",
        "filename",
        "file",
        "paths",
        "file_paths",
        "directory",
        "dir",
        "folder",
    }
)
_ONLY_LOOKS = frozenset({"view", "read", "show", "list"})
"""Values of an editor's `command` that only read."""
_OF_EDITORS = frozenset(("create", "view", "str_replace", "insert", "undo_edit"))
"""All values of an editor's `command`."""
_TEXT_ARGS = {
    Reading.SHELL: (
        "command", "cmd", "script", "input", "code", "commands", "command_line", "bash", "shell", "argv", "program",
        "cli_command", "keys", "text", "chars", "keystrokes", "args", "source", "cmdline", "line", "exec",
    ),
    Reading.SQL: (
        "query", "sql", "statement", "command", "sql_text", "code", "statements", "queries", "script", "q", "text",
    ),
    Reading.PLAIN: (
        "code", "script", "source", "command", "cmd", "input", "cell", "program", "content", "cells", "query",
        "snippet", "expression", "expr", "text", "__arg1", "python", "javascript", "js",
    ),
}  # fmt: skip
_LINES = frozenset(("commands", "statements", "queries", "cells"))
"""Lists of whole lines; any other list is one line's words."""
_ARGV_NAMES = ("args", "argv", "arguments")
_PROGRAM_NAMES = ("program", "executable", "cmd", "command", "binary")
_LANGUAGES = {
    "console": _SHELL,
    "bash": _SHELL, "sh": _SHELL, "shell": _SHELL, "zsh": _SHELL, "powershell": _SHELL, "pwsh": _SHELL, "cmd": _SHELL,
    "sql": _SQL, "postgresql": _SQL, "mysql": _SQL,
}  # fmt: skip
_PROGRAMS = frozenset((
    "kubectl", "git", "docker", "podman", "aws", "gcloud", "az", "terraform", "helm", "psql", "mysql", "sqlite3",
    "gsutil", "bq", "gh", "redis", "mongosh", "rclone", "find", "hdfs", "pulumi", "vault", "snowsql", "dbt",
))  # fmt: skip
"""Tools named after the program whose arguments they take."""
_MONGO = "mongosh --eval"
_MONGOS = frozenset(("mongo", "mongodb", "mongosh", "mongo_shell", "mongodb_shell", "mongo_eval"))
_FETCHERS = frozenset(("curl", "wget"))
_CODES = frozenset((
    "python", "python3", "py", "javascript", "js", "node", "nodejs", "deno", "bun", "typescript", "ts", "ruby", "php",
    "perl", "lua", "julia", "jupyter", "notebook",
))  # fmt: skip
_RUNNERS = frozenset((
    "run", "runner", "exec", "execute", "executor", "eval", "evaluate", "repl", "interpreter", "console", "sandbox",
    "kernel",
))  # fmt: skip
"""A tool name with one of these and a language runs code, whatever the argument is called."""
_COMMANDS = frozenset(("command", "cmd", "command_line", "commands", "argv"))
_MAKES = frozenset((
    "create", "make", "write", "save", "new", "generate", "upload", "put", "copy", "clone", "provision", "build",
    "createfile", "writefile", "mkdir", "makedirs",
))  # fmt: skip
_MAKES_OR_CHANGES = frozenset(("save", "put", "write", "upload"))
"""These create the content of a file, but may only change an existing asset or row."""
_UNLESS_THERE = frozenset(("exists", "ensure", "upsert", "or"))
_UNLESS_THERE_ARGS = ("if_not_exists", "exist_ok", "exists_ok", "ignore_existing", "if_missing", "upsert")
"""With one of these it is unknown whether anything was created."""
_OPENS_IT = frozenset(("link", "links", "share", "invite", "permission"))
"""New ways for others to reach an existing object."""
_BEHIND_THE_THING = frozenset(("from", "in", "with", "for", "at", "on", "by", "using", "to", "of", "async"))
_ANY_THING = frozenset(("path", "file_path", "filename", "file", "name", "id", "key", "resource_id"))
"""Arguments that name a target of any kind."""
_FILES = re.compile(r"^\*\*\* Add File: (?P<file>.+)$", re.MULTILINE)
_RENAMES_SQL = re.compile(r"rename|swap", re.IGNORECASE)
_RENAMES = frozenset(("rename", "move", "mv"))
_CONTENT_ARGS = (
    "content",
    "file_text",
    "text",
    "contents",
    "new_content",
    "file_content",
    "code",
    "data",
    "body",
    "source",
    "code_edit",
)
_PUT_IN = ("new_str", "new_string", "insert_text", "replacement")
_PUT_IN_NAMES = frozenset(_PUT_IN)
_MAX_OF_FILE = 32
_FROM_ARGS = ("source", "src", "from", "old_path", "old_name", "from_path", "source_path", "current_name", "old")
_TO_ARGS = (
    "destination", "dest", "dst", "to", "new_path", "new_name", "to_path", "destination_path", "target",
    "target_name",
    "new",
)  # fmt: skip
_PROGRAM_FILES = (".py", ".sh", ".js", ".ts", ".rb", ".mjs")
_ABOUT_TEXTS = frozenset(("search", "web", "grep", "docs", "find"))
"""Words of tools that search for a statement rather than execute it."""
_MEANT_TO_BE_EMPTY = ("__init__.py", "keep", "py.typed", ".nojekyll", ".gitignore", ".npmignore", ".log")
_EMPTY_BY_CUSTOM = (
    ".py", ".js", ".ts", ".tsx", ".go", ".rs", ".java",
    ".c",
    ".h", ".cpp", ".rb", ".php", ".css", ".html", ".md", ".txt", ".log", ".sh", ".vue", ".jsx", ".swift", ".kt",
)  # fmt: skip
"""Types of files that are often created empty and filled later."""
_SUFFIX = re.compile(r"\.[A-Za-z]\w*$")
_IN_EVERY_PROJECT = re.compile(r".*/(?:README|LICENSE|CHANGELOG|(?:main|app|index|settings|server|config)\.)[\w.]*$")
"""These are created once in a project, so an empty one is an emptied one."""
_DATABASE_WORDS = frozenset((
    "sql", "db", "database", "query", "queries", "warehouse", "snowflake", "postgres", "mysql", "bigquery", "table",
))  # fmt: skip
_STATEMENT = re.compile(
    r"\s*+(?:(?>--[^\n]*\n|/\*.*?\*/)\s*+)*+(?:drop\s+(?:table|view|schema|database|column|materialized)|truncate\s+(?:table\s+)?"
    r"|delete\s+from|alter\s+table|update\s+[\w.\"`\[\]]+\s+set|merge\s+into|create\s+or\s+replace|insert\s+overwrite)\b"
    r"[^?]*\Z",
    re.IGNORECASE | re.DOTALL,
)
_TYPES = frozenset(("type", "fill", "typing", "keyboard", "autocomplete"))
"""Words of tools that type a text."""
_STATEMENT_HINT = re.compile(r"drop|truncate|delete|alter|update|merge|replace|overwrite", re.IGNORECASE)
_CWD_ARGS = ("cwd", "workdir", "working_directory", "working_dir")
_CWD_NAMES = frozenset(_CWD_ARGS)
CHANGING = frozenset({Effect.WRITE, Effect.MUTATE, Effect.DESTRUCTIVE})
_MAX_ID_CHARS = 480
_MAX_CWD_CHARS = 1024
_MAX_TARGETS = 256
"""For one event."""
_CACHED_NAMES = 4096
_PLACES_CHARS = 4096
"""The part of a command line or program that is searched for renames and for directories where programs run."""


_NOT_KNOWN = KnownTool()
_DESTROYS = KnownTool(Effect.DESTRUCTIVE)
_BY_VERB = frozenset((None, Effect.WRITE, Effect.NETWORK, Effect.MUTATE))
"""Effects that a destructive verb in the tool's name overrides."""
_MAY_WRITE = frozenset((None, Effect.WRITE, Effect.MUTATE))
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
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_STEPS = re.compile(
    r"(?:^|[_./:])(?:[glprj]?db|dlv|debug(?:ger)?(?!_(?:start|stop|add|attach|launch|quit|kill|set))|step(?:i|s|_.*)?|next(?:i|_.*)?|continue|advance|pager|scroll|(?:page|scroll)_.*|goto)"
    r"(?:$|[_./:])"
)
"""Names of tools that are called repeatedly to advance, and report their position."""
_DEBUGS = re.compile(r"\s*(?:(?:step|next)i?|continue|finish|[sn]i)\s*(?:\d+\s*)?$")
"""Input to a debugger."""


class Classifier:
    """Reads tools and targets by one policy. Its only state is a bounded cache of tool names."""

    def __init__(self, policy: Policy) -> None:
        self._tools = [
            (re.compile(translate(t.match.lower())), KnownTool(t.effect, t.reading, t.loop_key))
            for t in (*policy.tools, *BUILT_IN)
        ]
        self._own = len(policy.tools)
        """The number of the policy's own tools, which take precedence."""
        names = dict.fromkeys((*policy.target_args, *TARGET_ARGS))
        self._target_ranks = {name: rank for rank, name in enumerate(names)}
        self._by_name: dict[str, KnownTool] = {}

    def tool(self, action: str) -> KnownTool:
        """Return the known properties of a tool by its name; an unknown one has no effect."""
        known = self._by_name.get(action)
        if known is None:
            if len(self._by_name) >= _CACHED_NAMES:
                self._by_name.clear()
            known = self._by_name[action] = self._look_up(action)
        return known

    def _look_up(self, action: str) -> KnownTool:
        # The last part of `mcp__warehouse__drop_table`, `catalog.delete_asset` and `fs/readFile` is the name.
        plain = folded(action).strip()
        snake = "_".join(words(plain))
        names = dict.fromkeys((action.lower(), _snake(plain), _short_name(plain), snake))
        known, place = _NOT_KNOWN, 0
        loop_key: tuple[str, ...] | None = None
        for at, (pattern, tool) in enumerate(self._tools):
            if not any(pattern.match(name) for name in names):
                continue
            if loop_key is None and tool.loop_key is not None and tool.effect is None and tool.reading is _PLAIN:
                loop_key = tool.loop_key  # only the loop key is declared: the other properties are determined below
                continue
            known, place = tool, at
            break
        program = _short_name(plain).removeprefix("run_").removesuffix("_cli")
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
        return known if loop_key is None else replace(known, loop_key=loop_key)

    def tool_of(self, action: str, args: JsonObject | None) -> KnownTool:
        """Return the known properties of a call's tool; those of an unknown tool are inferred from the arguments."""
        tool = self._by_name.get(action) or self.tool(action)
        if tool.effect is _WRITE and args and args.get("command") in _ONLY_LOOKS:
            return replace(tool, effect=_READ)
        if tool.effect is not None and (tool.effect is not _EXEC or tool.reading is _SHELL):
            return tool
        if not args:
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
                        and (
                            value in _OF_EDITORS
                            or destroying_verb(value) != ""
                            or tool_effects.names_an_act(f"{value}_{action}")
                        )
                    )
                    if is_operation or destructive_shapes.inner_calls(args, action):
                        return tool
                    known = _by_language(args, RUNS[reading])
                    return known if tool.loop_key is None else replace(known, loop_key=tool.loop_key)
        return tool

    def targets(self, event: ActionEvent) -> tuple[str, ...]:
        """Return the targets of the event, in canonical form; `unknown` if it has none."""
        declared = event.targets
        if declared:
            return tuple(declared) if len(declared) == 1 else tuple(dict.fromkeys(declared[:_MAX_TARGETS]))
        args = event.args
        if not args:
            return (UNKNOWN,)
        if not _QUALIFIED_NAMES.isdisjoint(args):
            parts = [f"{name}={args[name]}" for name in _QUALIFIED if _is_id(args.get(name))]
            if parts:
                return (",".join(parts),)
        ranks = self._target_ranks
        names = ranks.keys() & args.keys()
        for name in sorted(names, key=ranks.__getitem__) if len(names) > 1 else names:
            value = args[name]
            kind = "path" if name in _PATH_ARGS else name
            if _is_id(value):
                return (tool_name_severity.target(kind, value, cwd_of(event)),)
            if isinstance(value, list) and value and all(_is_id(item) for item in value):
                cwd = cwd_of(event)
                return tuple(dict.fromkeys(tool_name_severity.target(kind, item, cwd) for item in value[:_MAX_TARGETS]))
        return (UNKNOWN,)

    def things(self, args: JsonObject | None, cwd: str | None) -> tuple[str, ...]:
        """Return the targets of a destructive call, anywhere in its arguments."""
        found = destructive_shapes.things(args, self._target_ranks)
        return tuple(
            dict.fromkeys(
                tool_name_severity.target("path" if kind in _PATH_ARGS else kind, name, cwd) for kind, name in found
            )
        )[:_MAX_TARGETS]


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
    for name in _TEXT_ARGS[tool.reading]:
        value = args.get(name)
        if isinstance(value, str):
            return _with_words(name, value, args, tool) if tool.reading is _SHELL else value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            if name in _LINES:
                return (";\n" if tool.reading is _SQL else "\n").join(value)
            return "\n".join(value) if tool.reading is _PLAIN else _of_program(shlex.join(value), tool)
    return _text_within(args, tool, depth) if depth < destructive_shapes.MAX_DEPTH else ""


def _text_within(args: JsonObject, tool: KnownTool, depth: int) -> str:
    """Return the text in an object or a list of objects: `{"cell": {"source": [...]}}`."""
    for value in args.values():
        for inner in value[:_MAX_TARGETS] if isinstance(value, list) else (value,):
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


def may_destroy(action: str, tool: KnownTool, hint: Effect | None, args: JsonObject | None) -> bool:
    """Return whether an attempt that executes no text could be irreversible: cheap, with false positives."""
    if hint is _DESTRUCTIVE or tool.effect is _DESTRUCTIVE:
        return True
    return args is not None and (
        tool_effects.may_act(action)
        or destructive_shapes.telling(args)
        or (tool.effect in _MAY_WRITE and any(map(_is_blank, map(args.get, _CONTENT_ARGS))))
    )


def runs_into_loss(act: ToolCall) -> bool:
    """Return whether the text that an attempt executes may be destructive; usually takes only the prefilter."""
    if act.tool.reading is not _SHELL or act.hint is _DESTRUCTIVE or act.written:
        return True
    return bool(destructions(act.text, cwd=cwd_of(act.event)) or _by_statement_or_name(act))


def _by_statement_or_name(act: ToolCall) -> tuple[Destruction, ...]:
    """Return the losses by a text as a statement for an open client, or after the program's name in the tool's name."""
    if act.tool.program or act.tool.reading is not _SHELL or not act.args:
        return ()
    if _STATEMENT.match(act.text) is not None:
        return sql_destructions(act.text)
    line = tool_effects.as_command_line(act.action, act.args)
    return destructions(line, cwd=cwd_of(act.event)) if line and not begins_with_program(act.text) else ()


def destroys(act: ToolCall, classifier: Classifier) -> tuple[Destruction, ...]:
    """Return what an attempt would destroy, by its tool, the executed text and the calls in its arguments."""
    tool, hint = act.tool, act.hint
    if tool.effect is _EXEC and act.text:
        found = _losses_of(act.text, tool, cwd_of(act.event)) or _by_statement_or_name(act)
        if found and tool.reading is Reading.SQL and names_tests(act.args or {}):
            found = tuple(replace(one, badness=Badness.SCRATCH) for one in found)
        if not found and tool.reading is not _SHELL and "mutation" in act.text:
            found = _by_graphql(destructive_shapes.objects_of(act.args or {}))
        if not found and tool.reading is _PLAIN and "(" in act.text:
            found = tool_effects.clicks_of_program(act.text)
        if found or hint is not _DESTRUCTIVE:
            return found
    if tool.effect is _DESTRUCTIVE or hint is _DESTRUCTIVE:
        found = _named(act.action, _about(act, classifier))
    else:
        found = _by_shape(classifier, act.action, act.args, tool, cwd_of(act.event), 0) if act.args else ()
        if not found and act.args is not None and tool.effect is not _POLL:
            found = tool_effects.acts(act.action, act.args, lambda: classifier.things(act.args, cwd_of(act.event)))
    if found and nobody_misses(act):
        return tuple(replace(one, badness=Badness.SCRATCH) if one.effect in LOSSES else one for one in found)
    return found


def _about(act: ToolCall, classifier: Classifier) -> tuple[str, ...]:
    targets = act.targets
    if act.event.targets or (targets[0] != UNKNOWN and not _holds_lists(act.args)):
        return targets
    return classifier.things(act.args, cwd_of(act.event)) or targets


def _holds_lists(args: JsonObject | None) -> bool:
    return args is not None and any(isinstance(value, list) for value in args.values())


def _named(action: str, targets: tuple[str, ...]) -> tuple[Destruction, ...]:
    verb = _short_name(action) or "destroy"
    return tuple(Destruction(verb, what, tool_name_severity.badness(verb, what)) for what in targets[:_MAX_TARGETS])


def _by_shape(  # noqa: PLR0917 - it calls itself
    classifier: Classifier, action: str, args: JsonObject, tool: KnownTool, cwd: str | None, depth: int
) -> tuple[Destruction, ...]:
    """Return what the arguments of a call destroy although its name does not show it."""
    if tool.effect is _POLL:
        return ()
    args = destructive_shapes.in_snake(args)
    objects = tuple(destructive_shapes.objects_of(args))
    place = destructive_shapes.http_delete(args, objects) if tool.effect is not _READ or "method" in args else ""
    if place and is_own_server(place):
        return ()
    if place:
        return (Destruction("http_delete", f"url={place}", Badness.PLAIN),)
    found: list[Destruction] = []
    for name, inner in destructive_shapes.inner_calls(args, action) if depth < destructive_shapes.MAX_DEPTH else ():
        found += _of_inner(classifier, name or action, inner, cwd, depth + 1)
    if found:
        return tuple(dict.fromkeys(found))[:_MAX_TARGETS]
    mutations = _by_graphql(objects)
    if mutations:
        return mutations
    patched = destructive_shapes.patched_away(args)
    if patched:
        kept = tuple(tool_name_severity.target("path", file, cwd) for file in patched)
        return _named("delete_file", kept)
    statement = _statement(action, args, tool)
    if statement:
        found_there = sql_destructions(statement)
        return tuple(replace(one, badness=Badness.SCRATCH) for one in found_there) if names_tests(args) else found_there
    if tool.effect is _READ or tool.program == "find" or tool_effects.is_click(action):
        return ()
    types = not _TYPES.isdisjoint(words(action))
    verb = "" if types else destructive_shapes.operation(action, objects, weak=tool.effect is None)
    if verb:
        about = classifier.things(args, cwd) or (UNKNOWN,)
        return _named(f"{verb}_{'_'.join(words(_short_name(action))[-1:])}", about)
    emptied = _emptied(action, args, classifier, cwd)
    return emptied or (_by_texts(args, objects, cwd) if tool.effect is None or tool.effect is Effect.MUTATE else ())


def _by_texts(args: JsonObject, objects: Sequence[Mapping[str, Any]], cwd: str | None) -> tuple[Destruction, ...]:
    """Return the losses by texts that begin like a command line or statement, in a call of a little-known tool."""
    found: list[Destruction] = []
    for _, text in destructive_shapes.texts(args):
        if destructive_shapes.is_removal(text):
            found += destructions(text, cwd=cwd)
        elif _STATEMENT_HINT.search(text) is not None and _STATEMENT.match(text) is not None:
            found += sql_destructions(text)
    for program in destructive_shapes.programs(objects):
        found += code_destructions(program, cwd=cwd)
    return tuple(dict.fromkeys(found))[:_MAX_TARGETS]


def _of_inner(
    classifier: Classifier, action: str, args: JsonObject, cwd: str | None, depth: int
) -> tuple[Destruction, ...]:
    tool = classifier.tool_of(action, args)
    if tool.effect is _DESTRUCTIVE:
        return _named(action, classifier.things(args, cwd) or (UNKNOWN,))
    text = text_of(args, tool) if tool.effect is _EXEC else ""
    found = _losses_of(text, tool, cwd) if text else ()
    found = found or _by_shape(classifier, action, args, tool, cwd, depth)
    return found or tool_effects.acts(action, args, lambda: classifier.things(args, cwd))


def _by_graphql(objects: Iterable[Mapping[str, Any]]) -> tuple[Destruction, ...]:
    return tuple(
        Destruction(
            deed.verb,
            f"{deed.kind}={deed.name}",
            tool_name_severity.badness(deed.verb, f"{deed.kind}={deed.name}"),
            deed.effect,
        )
        for deed in graphql.graphql(objects)
    )


_STATEMENT_ARGS = ("query", "sql", "statement", "sql_text", "q", "stmt", "consulta", "abfrage", "requete")


def _statement(action: str, args: JsonObject, tool: KnownTool) -> str:
    """Return a destructive statement in an argument of a tool whose name indicates only reading, or no database."""
    for name in _STATEMENT_ARGS:
        text = args.get(name)
        if not isinstance(text, str) or _STATEMENT_HINT.search(text) is None:
            continue
        database_words = _DATABASE_WORDS.intersection(words(action))
        if tool.effect is _READ and not database_words and not _ABOUT_TEXTS.isdisjoint(words(action)):
            continue
        if (database_words and tool.effect is not _READ) or _STATEMENT.match(text) is not None:
            return text
    return ""


_MAKES_FILES = frozenset(("write", "overwrite", "save", "edit", "put", "replace", "update", "create"))


def _emptied(action: str, args: JsonObject, classifier: Classifier, cwd: str | None) -> tuple[Destruction, ...]:
    """Return what a tool sets to null, or overwrites with empty content."""
    named = words(_short_name(action)) or ("",)
    lead = named[0]
    if lead == "set" and "value" in args and args["value"] is None and not is_recreatable(action):
        return _named(f"unset_{_short_name(action)}", classifier.things(args, cwd) or (UNKNOWN,))
    makes = lead in _MAKES_FILES or named[-1] in _MAKES_FILES or args.get("command") == "create"
    if not (makes or str(args.get("action")) in _MAKES_FILES) or not any(map(_is_blank, map(args.get, _CONTENT_ARGS))):
        return ()
    return tuple(
        replace(one, verb=_emptying(one.target), effect=ActEffect.OVERWRITES)
        for one in _named("empty_file", classifier.things(args, cwd))
        if not one.target.endswith(_MEANT_TO_BE_EMPTY) and (lead != "create" or _is_file(one.target))
    )


def _is_file(target: str) -> bool:
    return target.startswith("path=") and _SUFFIX.search(target) is not None


def _emptying(target: str) -> str:
    """Return the verb of a file that is written without content."""
    new = target.endswith(_EMPTY_BY_CUSTOM) and not target.startswith(_OF_DATA)
    return BLANK if new and _IN_EVERY_PROJECT.match(target) is None else "empty_file"


def _is_blank(content: Any) -> bool:
    return isinstance(content, str) and not content.strip()


_OF_DATA = ("path=/data/", "path=/srv/", "path=/etc/", "path=/var/lib/", "path=/var/www/", "path=/mnt/")
"""Directories whose files are not usually created empty."""


def _losses_of(text: str, tool: KnownTool, cwd: str | None) -> tuple[Destruction, ...]:
    if tool.reading is _SHELL:
        return destructions(text, cwd=cwd)
    return sql_destructions(text) if tool.reading is _SQL else code_destructions(text, cwd=cwd)


def is_read_whole(text: str, reading: Reading, cwd: str | None) -> bool:
    """Return whether a text that is executed is within all limits of parsing."""
    if reading is _SQL:
        work = StepBudget()
        sql_destructions(text, work=work)
        return not work.cut
    return text_is_read_whole(text, cwd=cwd, by_code=reading is not _SHELL)


def files_of(act: ToolCall) -> list[tuple[str, list[list[str]]]]:
    """Return the files that an attempt writes, with the losses of running each; harmless files are omitted."""
    tool, args = act.tool, act.args
    if tool.effect is _EXEC:
        text = act.text
        if tool.reading is not _SHELL or not (">" in text or "tee " in text) or not may_destroy_by_code(text):
            return []
        texts = files_written(text, cwd=cwd_of(act.event))
    elif tool.effect is _WRITE and args:
        text = next((args[name] for name in (*_CONTENT_ARGS, *_PUT_IN) if isinstance(args.get(name), str)), "")
        target = act.targets[0]
        if not text or not target.startswith("path=") or not may_destroy_by_code(text):
            return []
        texts = {target[5:]: text}
    else:
        return []
    cut = act.event.unread_from is not None
    found: list[tuple[str, list[list[str]]]] = []
    for path, text in texts.items():
        losses = [as_row(d) for d in file_destructions(path, text, cwd=cwd_of(act.event))]
        if tool.effect is _WRITE and args and not _PUT_IN_NAMES.isdisjoint(args):
            losses = [*act.written.get(path, ()), *losses][:_MAX_OF_FILE]  # the rest of the file is unchanged
        found.append((path, [*losses, ["unread", f"path={path}", "PLAIN"]] if cut else losses))
    return found


def destroyed_by_files(act: ToolCall) -> tuple[Destruction, ...]:
    """Return the losses by files that the session wrote before and that an attempt runs."""
    written = act.written
    text = act.text
    if act.tool.reading is not _SHELL or not any(
        path.rpartition("/")[2].partition(".")[0] in text or path.endswith(("akefile", "justfile", "package.json"))
        for path in written
    ):
        return ()
    found: list[Destruction] = []
    for file in files_run(text, cwd=cwd_of(act.event)):
        for path, losses in written.items():
            if path == file or (path[:1] != file[:1] and (path.endswith(f"/{file}") or file.endswith(f"/{path}"))):
                found += [of_row(row) for row in losses if row[0] != "unread"]
    return tuple(dict.fromkeys(found))


def creates(act: ToolCall) -> tuple[str, ...]:
    """Return the targets that an attempt creates: by a tool that creates or writes, a command line, or a program in it.

    Changing an object does not create it: adding a tag, inserting a row and editing a file create nothing.
    """
    tool, text = act.tool, act.text
    if tool.effect is _WRITE:
        command = act.args.get("command") if act.args else None
        if isinstance(command, str) and command in _ONLY_LOOKS:
            return ()
        made = _made_by_tool(act)
        return (*made, *_made_by_file(act, made)) if made else ()
    if not text:
        return ()
    if tool.reading is _SQL:
        return sql_creations(text)
    cwd = cwd_of(act.event)
    by_code = code_creations(text, cwd=cwd)
    if tool.reading is _PLAIN or not text_may_create(text):
        return by_code
    written = command_effects.written_file(text)
    if written:
        return (tool_name_severity.target("path", written, cwd), *by_code)
    return (*creations(text, cwd=cwd), *by_code) if command_effects.may_create(text) else by_code


def _made_by_file(act: ToolCall, made: tuple[str, ...]) -> tuple[str, ...]:
    """Return what a program creates that is written to a new file, since it will probably be run."""
    if not made[0].endswith(_PROGRAM_FILES):
        return ()
    args = act.args or {}
    text = next((args[name] for name in _CONTENT_ARGS if isinstance(args.get(name), str)), "")
    return code_creations(text, cwd=cwd_of(act.event))


def _made_by_tool(act: ToolCall) -> tuple[str, ...]:
    name_words = words(_short_name(act.action))
    args = act.args or {}
    if not _UNLESS_THERE.isdisjoint(name_words) or any(args.get(name) for name in _UNLESS_THERE_ARGS):
        return ()
    if name_words[:1] and name_words[0] not in _MAKES:
        if args.get("command") == "create":  # an editor with several commands
            return act.targets
        text = args.get("input") or args.get("patch")
        if isinstance(text, str) and "*** Add File: " in text:
            return tuple(
                tool_name_severity.target("path", found["file"].strip(), cwd_of(act.event))
                for found in _FILES.finditer(text)
            )
        return ()
    kind = act.targets[0].partition("=")[0]
    if name_words[-1:] and name_words[-1] in _OPENS_IT:
        return ()
    # `create_comment(asset_id=...)` creates a comment, `create_asset(asset_id=...)` the asset.
    if kind in _ANY_THING or len(name_words) < 2:
        return act.targets
    made = name_words[1:]
    for at, word in enumerate(made[1:], 1):
        if word in _BEHIND_THE_THING:
            made = made[:at]
            break
    is_new = name_words[0] not in _MAKES_OR_CHANGES and (made[-1] in kind or kind in made[-1])
    return act.targets if is_new else ()


def renames(act: ToolCall) -> tuple[tuple[str, str], ...]:
    """Return the renames of an attempt: each new target with the previous one."""
    tool, text = act.tool, act.text
    if tool.effect is _EXEC:
        if tool.reading is _SHELL:
            if "mv " in text or "ln " in text:
                return shell_renames(text[:_PLACES_CHARS], cwd=cwd_of(act.event))
            return ()
        return sql_renames(text) if tool.reading is _SQL and _RENAMES_SQL.search(text) is not None else ()
    args = act.args
    if not args or tool.effect is _READ or not _is_renaming(act.action):
        return ()
    cwd = cwd_of(act.event)
    new = next((args[name] for name in _TO_ARGS if _is_id(args.get(name))), None)
    old = next((args[name] for name in _FROM_ARGS if _is_id(args.get(name))), None)
    if new is None:
        return ()
    if old is not None:
        kind = "path" if "/" in str(old) or "file" in act.action.lower() else "name"
        return ((tool_name_severity.target(kind, new, cwd), tool_name_severity.target(kind, old, cwd)),)
    origin = act.targets[0]
    kind = origin.partition("=")[0]
    return ((tool_name_severity.target(kind, new, cwd), origin),) if origin != UNKNOWN else ()


@lru_cache(maxsize=1024)
def _is_renaming(action: str) -> bool:
    return not _RENAMES.isdisjoint(words(_short_name(action)))


def known_as(destruction: Destruction, renamed: dict[str, str]) -> Destruction:
    """Return the loss of a renamed target under its original name."""
    place = destruction.target
    while place:
        origin = renamed.get(place)
        if origin is None and place != destruction.target:
            origin = renamed.get(f"{place}/")  # a link: its contents are lost, not the link itself
        if origin is not None:
            target = origin + destruction.target[len(place) :]
            bad = (
                path_badness(target.removeprefix("path="), everything=True)
                if target.startswith("path=")
                else tool_name_severity.badness(destruction.verb, target)
            )
            return replace(destruction, target=target, badness=bad)
        place = place.rpartition("/")[0]
    return destruction


def held(destruction: Destruction, renamed: dict[str, str]) -> list[Destruction]:
    """Return the losses of targets that were moved into a deleted directory, under their original names."""
    if not destruction.target.startswith("path="):
        return []
    below = f"{destruction.target.removesuffix('/*')}/"
    return [
        replace(destruction, target=origin, badness=path_badness(origin.removeprefix("path="), everything=True))
        for new, origin in renamed.items()
        if new.startswith(below) and len(new) > len(below) and not new.endswith("/")
    ]


def changes(hint: Effect | None, tool: KnownTool, text: str) -> bool:
    """Return whether the action changes anything that a later one could see. An unknown tool is assumed to."""
    effect = tool.effect or hint
    if effect is not _EXEC:
        return effect is None or effect in CHANGING or hint in CHANGING
    if tool.reading is _SHELL:
        return command_effects.changes(text)
    return command_effects.changes_sql(text) if tool.reading is _SQL else command_effects.changes_by_code(text)


def may_have_changed(tool: KnownTool, text: str) -> bool:
    """Return whether a failed execution may have changed something: only if it writes before its last part.

    A failed statement is rolled back as a whole; how far a program got before it failed is unknown.
    """
    if tool.reading is _SHELL:
        return command_effects.changes_before_end(text)
    return tool.reading is _PLAIN and command_effects.changes_by_code(text)


def produces(tool: KnownTool, text: str) -> bool:
    """Return whether the action runs a program or writes, so that it may leave unnamed files."""
    if tool.effect is _EXEC:
        return tool.reading is _PLAIN or (tool.reading is _SHELL and command_effects.produces(text))
    return tool.effect is _WRITE


def places(act: ToolCall) -> tuple[str, ...]:
    """Return the directories where programs run after all destructions of an attempt; empty text if unknown."""
    tool, text, cwd = act.tool, act.text, cwd_of(act.event)
    if tool.effect is _WRITE:
        named_places = [t[5:].rpartition("/")[0] for t in act.targets if t.startswith("path=")]
        return tuple(place for place in named_places if place) or ("",)
    if tool.reading is _SHELL:
        return remakers(text[:_PLACES_CHARS], cwd=cwd)
    return () if act.destroys else (cwd or "", *command_effects.folders(text[:_PLACES_CHARS]))


def waits(hint: Effect | None, tool: KnownTool, text: str) -> bool:
    """Return whether the action checks something that is expected to change by itself."""
    return tool.effect is _POLL or hint is _POLL or (text != "" and command_effects.waits(text))


def steps_through(action: str, text: str) -> bool:
    """Return whether the action steps through something, such as a debugger, a pager or a cursor."""
    return _names_a_step(action) or (text != "" and _DEBUGS.match(text) is not None)


@lru_cache(maxsize=1024)
def _names_a_step(action: str) -> bool:
    return _STEPS.search(_snake(action)) is not None


@lru_cache(maxsize=4096)
def _short_name(action: str) -> str:
    return _LAST_PART.split(_snake(action))[-1]


def _snake(action: str) -> str:
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


def _is_id(value: Any) -> bool:
    return (isinstance(value, str) and 0 < len(value) <= _MAX_ID_CHARS) or (
        isinstance(value, int) and not isinstance(value, bool)
    )
