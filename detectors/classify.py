"""What a tool does, from its name, its arguments and the policy."""

import re
import shlex
from fnmatch import translate
from typing import TYPE_CHECKING, Any

from haltline.detectors import named, progress
from haltline.detectors.commands import Badness, Destruction, creations, destructions, sql_destructions
from haltline.detectors.commands.sql import sql_creations
from haltline.schemas.events import ActionEvent, Effect
from haltline.schemas.policy import Policy, Reading, Tool

if TYPE_CHECKING:
    from haltline.detectors.act import Act

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
RUNS = {reading.value: Tool(match="*", effect=Effect.EXEC, reading=reading) for reading in Reading}
"""Tools that run something, by how it is read."""
_GUESSES = (("command", "shell"), ("cmd", "shell"), ("sql", "sql"), ("statement", "sql"))
"""Arguments that say how a tool that is not known is read."""
_LAST_PART = re.compile(r"__|[./:]")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Classifier:
    """Reads tools and targets as one policy says. Has no state but a bounded cache of tool names."""

    def __init__(self, policy: Policy) -> None:
        self._tools = [(re.compile(translate(t.match.lower())), t) for t in (*policy.tools, *BUILT_IN)]
        names = dict.fromkeys((*policy.target_args, *TARGET_ARGS))
        self._target_ranks = {name: rank for rank, name in enumerate(names)}
        self._by_name: dict[str, Tool] = {}

    def tool(self, action: str) -> Tool:
        """What is known of a tool by its name; an unknown one has no effect of its own."""
        known = self._by_name.get(action)
        if known is None:
            if len(self._by_name) >= _CACHED_NAMES:
                self._by_name.clear()
            known = self._by_name[action] = self._look_up(action)
        return known

    def _look_up(self, action: str) -> Tool:
        # `mcp__warehouse__drop_table`, `catalog.delete_asset` and `fs/readFile` are named by their last part.
        names = dict.fromkeys((action.lower(), _snake(action), _short_name(action)))
        for pattern, tool in self._tools:
            if any(pattern.match(name) for name in names):
                return tool
        return Tool(match=action)

    def tool_of(self, event: ActionEvent, action: str) -> Tool:
        """What is known of the event's tool; one that is not known is guessed by its arguments."""
        tool = self._by_name.get(action) or self.tool(action)
        if tool.effect is None and event.args:
            for name, reading in _GUESSES:
                if isinstance(event.args.get(name), str):
                    return RUNS[reading]
        return tool

    def targets(self, event: ActionEvent) -> tuple[str, ...]:
        """What the event is about, in canonical form; `unknown` when it does not say."""
        if event.targets:
            said = event.targets
            return tuple(said) if len(said) == 1 else tuple(dict.fromkeys(said[:_MAX_TARGETS]))
        args = event.args
        if not args:
            return (UNKNOWN,)
        if not _QUALIFIED_NAMES.isdisjoint(args):
            parts = [f"{name}={args[name]}" for name in _QUALIFIED if _is_id(args.get(name))]
            if parts:
                return (",".join(parts),)
        ranks = self._target_ranks
        for name in sorted(ranks.keys() & args.keys(), key=ranks.__getitem__):
            value = args[name]
            kind = "path" if name in _PATH_ARGS else name
            if _is_id(value):
                return (named.target(kind, value, cwd_of(event)),)
            if isinstance(value, list) and value and all(_is_id(item) for item in value):
                cwd = cwd_of(event)
                return tuple(dict.fromkeys(named.target(kind, item, cwd) for item in value[:_MAX_TARGETS]))
        return (UNKNOWN,)


def text_of(event: ActionEvent, tool: Tool) -> str:
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


def effect_of(event: ActionEvent, tool: Tool) -> Effect:
    """The policy's effect of the tool, raised by the producer's hint, never lowered."""
    effect = tool.effect or Effect.READ
    return event.effect if event.effect is not None and event.effect.rank > effect.rank else effect


def destroys(act: "Act") -> tuple[Destruction, ...]:
    """What an attempt would take away: every target of a destructive tool, or what a command line says."""
    tool, hint = act.tool, act.event.effect
    if tool.effect is Effect.EXEC:
        found = _read(act, tool) if act.text else ()
        if found or hint is not Effect.DESTRUCTIVE:
            return found
    if tool.effect is Effect.DESTRUCTIVE or hint is Effect.DESTRUCTIVE:
        verb = _short_name(act.action) or "destroy"
        return tuple(Destruction(verb, what, named.badness(verb, what)) for what in act.targets)
    args = act.event.args
    if args and "method" in args and str(args["method"]).upper() == "DELETE" and _is_id(args.get("url")):
        return (Destruction("http_delete", f"url={args['url']}", Badness.PLAIN),)
    return ()


def _read(act: "Act", tool: Tool) -> tuple[Destruction, ...]:
    if tool.reading is Reading.SHELL:
        return destructions(act.text, cwd=cwd_of(act.event))
    return sql_destructions(act.text) if tool.reading is Reading.SQL else ()


def creates(act: "Act") -> tuple[str, ...]:
    """What an attempt makes, as targets: those of a tool that creates or writes, or what a command line says."""
    tool, text = act.tool, act.text
    if tool.effect is Effect.WRITE:
        return act.targets
    if not text or tool.reading is Reading.PLAIN:
        return ()
    if tool.reading is Reading.SQL:
        return sql_creations(text)
    written = progress.written_file(text)
    if written:
        return (named.target("path", written, cwd_of(act.event)),)
    return creations(text, cwd=cwd_of(act.event)) if progress.may_create(text) else ()


def changes(hint: Effect | None, tool: Tool, text: str) -> bool:
    """Whether the action changes anything that a later one could see. A tool that is not known is taken to."""
    effect = tool.effect or hint
    if effect is not Effect.EXEC:
        return effect is None or effect in CHANGING or hint in CHANGING
    if tool.reading is Reading.SHELL:
        return progress.changes(text)
    return progress.changes_sql(text) if tool.reading is Reading.SQL else progress.changes_by_code(text)


def produces(tool: Tool, text: str) -> bool:
    """Whether the action runs a program, or writes: it may leave files that nobody named."""
    if tool.effect is Effect.EXEC:
        return tool.reading is Reading.PLAIN or (tool.reading is Reading.SHELL and progress.produces(text))
    return tool.effect is Effect.WRITE


def waits(hint: Effect | None, tool: Tool, text: str) -> bool:
    """Whether the action looks at something that is expected to change by itself."""
    return tool.effect is Effect.POLL or hint is Effect.POLL or progress.waits(text)


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
