"""What a tool does, from its name, its arguments and the policy."""

import re
import shlex
from dataclasses import dataclass
from fnmatch import translate
from typing import TYPE_CHECKING, Any

from haltline.detectors import named, progress
from haltline.detectors.commands import Badness, Destruction, creations, destructions, sql_destructions
from haltline.detectors.commands.sql import sql_creations
from haltline.schemas.events import ActionEvent, Effect
from haltline.schemas.policy import Policy, Reading, Tool
from haltline.schemas.record import JsonObject

if TYPE_CHECKING:
    from haltline.detectors.act import Act

# Looked up at every event: from their class, members take ten times as long.
_EXEC, _DESTRUCTIVE, _WRITE, _POLL = Effect.EXEC, Effect.DESTRUCTIVE, Effect.WRITE, Effect.POLL
_SHELL, _SQL, _PLAIN = Reading.SHELL, Reading.SQL, Reading.PLAIN

BUILT_IN: tuple[Tool, ...] = (
    *(Tool(match=name, effect=Effect.EXEC, reading=Reading.SHELL) for name in (
        "bash", "sh", "shell", "zsh", "execute_bash", "execute_command", "run_command", "run_shell_command",
        "run_terminal_cmd", "run_terminal_command", "terminal", "local_shell", "exec_command", "exec", "cmd",
        "run_shell", "shell_command", "bash_tool", "command",
    )),
    *(Tool(match=name, effect=Effect.EXEC, reading=Reading.SQL) for name in (
        "sql", "sql_*", "*_sql", "query", "*_query", "query_database", "query_db",
    )),
    *(Tool(match=name, effect=Effect.EXEC) for name in (
        "run_code", "execute_code", "run_python*", "execute_python*", "python*", "ipython", "code_interpreter",
        "execute_ipython_cell", "run_tests", "test",
    )),
    *(Tool(match=name, effect=Effect.DESTRUCTIVE) for name in (
        "delete_*", "drop_*", "truncate_*", "destroy_*", "purge_*", "wipe_*", "erase_*", "*_delete", "*_drop",
        "bulk_delete*", "batch_delete*", "hard_delete*", "delete", "drop", "truncate", "destroy", "purge", "wipe",
    )),
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
        "insert_*", "apply_patch", "apply_*", "save_*", "upload_*", "make_*",
    )),
    *(Tool(match=name, effect=Effect.NETWORK) for name in ("http_*", "send_*", "post_*", "web*", "curl", "request*")),
)  # fmt: skip
"""Read in order; the first that matches wins. `delete_*`, `drop_*` and `truncate_*` are TapPass's own three."""

TARGET_ARGS = (
    "asset_id", "database", "schema", "table", "dataset", "bucket", "collection", "index", "queue", "topic",
    "namespace", "resource_id", "record_id", "user_id", "path", "file_path", "filename", "file", "key", "name", "id",
)  # fmt: skip
"""Arguments that name what an action is about, from the most telling to the least."""

UNKNOWN = "unknown"
"""The target of an event that does not say what it is about."""

_QUALIFIED = ("database", "schema", "table")
_QUALIFIED_NAMES = frozenset(_QUALIFIED)
_PATH_ARGS = frozenset({"path", "file_path", "filename", "file"})
_TEXT_ARGS = {
    Reading.SHELL: ("command", "cmd", "script", "input", "code"),
    Reading.SQL: ("query", "sql", "statement", "command"),
    Reading.PLAIN: ("code", "script", "source", "command", "cmd", "input"),
}
_CWD_ARGS = ("cwd", "workdir", "working_directory", "working_dir")
_CWD_NAMES = frozenset(_CWD_ARGS)
CHANGING = frozenset({Effect.WRITE, Effect.MUTATE, Effect.DESTRUCTIVE})
_MAX_ID_CHARS = 480
_MAX_CWD_CHARS = 1024
_MAX_TARGETS = 256
"""Of one event."""
_CACHED_NAMES = 4096


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a tool: no pydantic model, since it is looked at a dozen times for each event."""

    effect: Effect | None = None
    """None: nothing is known of what it does."""
    reading: Reading = Reading.PLAIN


_NOT_KNOWN = Known()
RUNS = {reading.value: Known(Effect.EXEC, reading) for reading in Reading}
"""Tools that run something, by how it is read."""
_GUESSES = (("command", "shell"), ("cmd", "shell"), ("sql", "sql"), ("statement", "sql"))
"""Arguments that say how a tool that is not known is read."""
_LAST_PART = re.compile(r"__|[./:]")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Classifier:
    """Reads tools and targets as one policy says. Has no state but a bounded cache of tool names."""

    def __init__(self, policy: Policy) -> None:
        self._tools = [
            (re.compile(translate(t.match.lower())), Known(t.effect, t.reading)) for t in (*policy.tools, *BUILT_IN)
        ]
        names = dict.fromkeys((*policy.target_args, *TARGET_ARGS))
        self._target_ranks = {name: rank for rank, name in enumerate(names)}
        self._by_name: dict[str, Known] = {}

    def tool(self, action: str) -> Known:
        """What is known of a tool by its name; an unknown one has no effect of its own."""
        known = self._by_name.get(action)
        if known is None:
            if len(self._by_name) >= _CACHED_NAMES:
                self._by_name.clear()
            known = self._by_name[action] = self._look_up(action)
        return known

    def _look_up(self, action: str) -> Known:
        # `mcp__warehouse__drop_table`, `catalog.delete_asset` and `fs/readFile` are named by their last part.
        names = dict.fromkeys((action.lower(), _snake(action), _short_name(action)))
        for pattern, tool in self._tools:
            if any(pattern.match(name) for name in names):
                return tool
        return _NOT_KNOWN

    def tool_of(self, event: ActionEvent, action: str) -> Known:
        """What is known of the event's tool; one that is not known is guessed by its arguments."""
        known = self._by_name.get(action)
        if known is not None and known.effect is not None:
            return known
        tool = known or self.tool(action)
        if tool.effect is None and event.args:
            for name, reading in _GUESSES:
                if isinstance(event.args.get(name), str):
                    return RUNS[reading]
        return tool

    def targets(self, event: ActionEvent) -> tuple[str, ...]:
        """What the event is about, in canonical form; `unknown` when it does not say."""
        said = event.targets
        if said:
            return tuple(said) if len(said) == 1 else tuple(dict.fromkeys(said[:_MAX_TARGETS]))
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
                return (named.target(kind, value, cwd_of(event)),)
            if isinstance(value, list) and value and all(_is_id(item) for item in value):
                cwd = cwd_of(event)
                return tuple(dict.fromkeys(named.target(kind, item, cwd) for item in value[:_MAX_TARGETS]))
        return (UNKNOWN,)


def text_of(event: ActionEvent, tool: Known) -> str:
    """The command line, statement or program that an action of a tool that runs something runs; empty: none is told."""
    args = event.args
    if not args:
        return ""
    for name in _TEXT_ARGS[tool.reading]:
        value = args.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return shlex.join(value)
    return ""


def may_destroy(tool: Known, hint: Effect | None, args: JsonObject | None) -> bool:
    """Whether an attempt that runs nothing could take something away: cheap, and true rather than false."""
    if hint is _DESTRUCTIVE or tool.effect is _DESTRUCTIVE:
        return True
    return args is not None and "method" in args


def destroys(act: "Act") -> tuple[Destruction, ...]:
    """What an attempt would take away: every target of a destructive tool, or what a command line says."""
    tool, hint = act.tool, act.hint
    if tool.effect is _EXEC:
        found = _read(act, tool) if act.text else ()
        if found or hint is not _DESTRUCTIVE:
            return found
    if tool.effect is _DESTRUCTIVE or hint is _DESTRUCTIVE:
        verb = _short_name(act.action) or "destroy"
        return tuple(Destruction(verb, what, named.badness(verb, what)) for what in act.targets)
    args = act.args
    if args and "method" in args and str(args["method"]).upper() == "DELETE" and _is_id(args.get("url")):
        return (Destruction("http_delete", f"url={args['url']}", Badness.PLAIN),)
    return ()


def _read(act: "Act", tool: Known) -> tuple[Destruction, ...]:
    if tool.reading is _SHELL:
        return destructions(act.text, cwd=cwd_of(act.event))
    return sql_destructions(act.text) if tool.reading is _SQL else ()


def creates(act: "Act") -> tuple[str, ...]:
    """What an attempt makes, as targets: those of a tool that creates or writes, or what a command line says."""
    tool, text = act.tool, act.text
    if tool.effect is _WRITE:
        return act.targets
    if not text or tool.reading is _PLAIN:
        return ()
    if tool.reading is _SQL:
        return sql_creations(text)
    written = progress.written_file(text)
    if written:
        return (named.target("path", written, cwd_of(act.event)),)
    return creations(text, cwd=cwd_of(act.event)) if progress.may_create(text) else ()


def changes(hint: Effect | None, tool: Known, text: str) -> bool:
    """Whether the action changes anything that a later one could see. A tool that is not known is taken to."""
    effect = tool.effect or hint
    if effect is not _EXEC:
        return effect is None or effect in CHANGING or hint in CHANGING
    if tool.reading is _SHELL:
        return progress.changes(text)
    return progress.changes_sql(text) if tool.reading is _SQL else progress.changes_by_code(text)


def produces(tool: Known, text: str) -> bool:
    """Whether the action runs a program, or writes: it may leave files that nobody named."""
    if tool.effect is _EXEC:
        return tool.reading is _PLAIN or (tool.reading is _SHELL and progress.produces(text))
    return tool.effect is _WRITE


def waits(hint: Effect | None, tool: Known, text: str) -> bool:
    """Whether the action looks at something that is expected to change by itself."""
    return tool.effect is _POLL or hint is _POLL or (text != "" and progress.waits(text))


def _short_name(action: str) -> str:
    return _LAST_PART.split(_snake(action))[-1]


def _snake(action: str) -> str:
    return _CAMEL.sub("_", action).lower().replace("-", "_")


def cwd_of(event: ActionEvent) -> str | None:
    """The working directory, where the event says it."""
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
