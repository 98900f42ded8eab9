"""What a tool does, from its name, its arguments and the policy."""

import re
from fnmatch import translate
from typing import Any

from haltline.detectors.commands.model import Badness, Destruction
from haltline.schemas.events import ActionEvent, Effect
from haltline.schemas.policy import Policy, Reading, Tool

BUILT_IN: tuple[Tool, ...] = (
    *(Tool(match=name, effect=Effect.EXEC, reading=Reading.SHELL) for name in (
        "bash", "sh", "shell", "zsh", "execute_bash", "execute_command", "run_command", "run_shell_command",
        "run_terminal_cmd", "terminal", "local_shell", "exec_command",
    )),
    *(Tool(match=name, effect=Effect.EXEC, reading=Reading.SQL) for name in (
        "sql", "execute_sql", "run_sql", "run_query", "query_database", "sql_query", "execute_query",
    )),
    *(Tool(match=name, effect=Effect.DESTRUCTIVE) for name in (
        "delete_*", "drop_*", "truncate_*", "destroy_*", "purge_*", "wipe_*", "delete",
        "drop", "truncate", "destroy", "purge",
    )),
    *(Tool(match=name, effect=Effect.READ) for name in (
        "get_*", "list_*", "read_*", "search_*", "find_*", "describe_*", "show_*", "view_*", "fetch_*", "read",
        "grep", "glob", "ls",
    )),
    *(Tool(match=name, effect=Effect.POLL) for name in ("wait_*", "poll_*", "*_status", "check_*")),
    *(Tool(match=name, effect=Effect.MUTATE) for name in (
        "update_*", "set_*", "remove_*", "modify_*", "cancel_*", "move_*", "rename_*", "replace_*",
    )),
    *(Tool(match=name, effect=Effect.WRITE) for name in ("create_*", "write_*", "edit_*", "add_*", "write", "edit",
        "str_replace*")),
    *(Tool(match=name, effect=Effect.NETWORK) for name in ("http_*", "send_*", "post_*", "web*")),
)  # fmt: skip
"""Read in order; the first that matches wins. `delete_*`, `drop_*` and `truncate_*` are TapPass's own three."""

TARGET_ARGS = (
    "asset_id", "database", "schema", "table", "dataset", "bucket", "collection", "index", "queue", "topic",
    "namespace", "resource_id", "record_id", "user_id", "path", "file_path", "filename", "file", "key", "name", "id",
)  # fmt: skip
"""Arguments that name what an action is about, from the most telling to the least."""

_QUALIFIED = ("database", "schema", "table")
_COMMAND_ARGS = ("command", "cmd", "script", "code", "input")
_SQL_ARGS = ("query", "sql", "statement", "command")
_CACHED_NAMES = 4096


class Classifier:
    """Reads tools and targets as one policy says. Has no state but a bounded cache of tool names."""

    def __init__(self, policy: Policy) -> None:
        self._tools = [(re.compile(translate(t.match.lower())), t) for t in (*policy.tools, *BUILT_IN)]
        self._target_args = (*policy.target_args, *TARGET_ARGS)
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
        # `mcp__warehouse__drop_table`, `catalog.delete_asset` and `fs/read_file` are named by their last part.
        names = (action.lower(), re.split(r"__|[./:]", action.lower())[-1])
        for pattern, tool in self._tools:
            if any(pattern.match(name) for name in names):
                return tool
        return Tool(match=action)

    def effect(self, event: ActionEvent, action: str) -> Effect:
        """The policy's effect of the tool, raised by the producer's hint and by what it would destroy."""
        effect = self.tool(action).effect or Effect.READ
        if event.effect is not None and event.effect > effect:
            effect = event.effect
        if effect is Effect.EXEC and self.destroys(event, action):
            return Effect.DESTRUCTIVE
        return effect

    def destroys(self, event: ActionEvent, action: str) -> tuple[Destruction, ...]:
        """What the action would take away: every target of a destructive tool, or what a command line says."""
        tool = self.tool(action)
        if tool.effect is Effect.DESTRUCTIVE or event.effect is Effect.DESTRUCTIVE:
            verb = action or "destructive"
            return tuple(Destruction(verb, target, Badness.PLAIN) for target in self.targets(event))
        return ()

    def creates(self, event: ActionEvent, action: str) -> tuple[str, ...]:
        """What the action makes, as targets: those of a tool that creates or writes."""
        if self.tool(action).effect is not Effect.WRITE:
            return ()
        return self.targets(event)

    def targets(self, event: ActionEvent) -> tuple[str, ...]:
        """What the event is about, in canonical form; `unknown` when it does not say."""
        if event.targets:
            return tuple(dict.fromkeys(event.targets))
        args = event.args or {}
        parts = [f"{name}={args[name]}" for name in _QUALIFIED if _is_id(args.get(name))]
        if parts:
            return (",".join(parts),)
        for name in self._target_args:
            value = args.get(name)
            if _is_id(value):
                return (f"{name}={value}",)
            if isinstance(value, list) and value and all(_is_id(item) for item in value):
                return tuple(dict.fromkeys(f"{name}={item}" for item in value))
        return ("unknown",)


def _is_id(value: Any) -> bool:
    return (isinstance(value, str) and 0 < len(value) <= 512) or (
        isinstance(value, int) and not isinstance(value, bool)
    )
