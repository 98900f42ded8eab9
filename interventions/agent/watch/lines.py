"""Lines of agents that print JSON: calls, their results, and the model's usage.

Supported are Claude Code (`--output-format stream-json`), Codex (`codex exec --json`), and lines of the plain form

    {"type": "tool_call", "id": "1", "name": "bash", "args": {"command": "ls"}}
    {"type": "tool_result", "id": "1", "output": "a.txt"}        or "error": "no such file"

Everything else is ignored.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from haltline.interventions.agent.integrations.claude_code.messages import (
    ToolResult,
    ToolUse,
    Turn,
    Turns,
    subagent_of,
    tools_of,
    usage_of,
)
from haltline.schemas.events import Usage

_CALLS = ("tool_call", "tool_use")  # not a set, as the value to look up may be unhashable
_CODEX_TOOLS = {
    "command_execution": "shell",
    "file_change": "apply_patch",
    "mcp_tool_call": "",
    "web_search": "web_search",
}


Output: TypeAlias = ToolUse | ToolResult | Turn


class Lines:
    """Reads the lines of one agent in order; yields their content with its subagent (None: the main agent)."""

    def __init__(self) -> None:
        self._turns: dict[str | None, Turns] = {}
        self._cost_usd = 0.0

    def read(self, line: Mapping[str, Any]) -> Iterator[tuple[str | None, Output]]:
        """Yield the content of a line; nothing for an unknown form."""
        kind = line.get("type")
        if kind in ("assistant", "user"):
            whose = subagent_of(line)
            turn = self._turns.setdefault(whose, Turns()).add(line)
            if turn is not None:
                yield whose, turn
            for tool in tools_of(line):
                yield whose, tool
        elif kind == "result":
            yield from self._result(line)
        elif kind in ("item.started", "item.completed"):
            yield from ((None, read) for read in _codex(kind, line.get("item")))
        elif kind == "turn.completed":
            used = line.get("usage")
            usage = _codex_usage(used) if isinstance(used, dict) else None
            if usage is not None:
                yield None, Turn(usage)
        elif kind in _CALLS or kind == "tool_result":
            yield from ((None, read) for read in _plain(line))

    def _result(self, line: Mapping[str, Any]) -> Iterator[tuple[str | None, Turn]]:
        """Yield the usage of Claude Code's last line, which has the total cost so far."""
        for whose, turns in self._turns.items():
            turn = turns.rest()
            if turn is not None:
                yield whose, turn
        cost = line.get("total_cost_usd")
        if isinstance(cost, int | float) and cost > self._cost_usd:
            yield None, Turn(Usage(cost_usd=min(cost - self._cost_usd, 1e15)))
            self._cost_usd = cost


def _plain(line: Mapping[str, Any]) -> Iterator[Output]:
    call_id = _first(line, "id", "call_id", "tool_call_id", "tool_use_id")
    if not isinstance(call_id, str) or not call_id:
        return
    if line.get("type") == "tool_result":
        error = line.get("error")
        failed = bool(error) or line.get("is_error") is True
        yield ToolResult(call_id, error if error else _first(line, "output", "content", "result"), failed)
    else:
        args = _first(line, "args", "arguments", "input")
        name = _first(line, "name", "tool")
        yield ToolUse(call_id, str(name or "unknown"), args if isinstance(args, dict) else {})


def _first(line: Mapping[str, Any], *names: str) -> Any:
    return next((line[name] for name in names if line.get(name) is not None), None)


def _codex(kind: str, item: object) -> Iterator[Output]:
    if not isinstance(item, dict) or str(item.get("type")) not in _CODEX_TOOLS or not isinstance(item.get("id"), str):
        return
    if kind == "item.started":
        name = _CODEX_TOOLS[item["type"]] or str(item.get("tool") or "unknown")
        args = {n: item[n] for n in ("command", "changes", "arguments", "query", "server") if n in item}
        yield ToolUse(item["id"], name, args)
    else:
        failed = item.get("status") in ("failed", "declined") or item.get("exit_code") not in (None, 0)
        yield ToolResult(item["id"], _first(item, "aggregated_output", "result", "error") or "", failed)


def _codex_usage(used: Mapping[str, Any]) -> Usage | None:
    """Return the usage from OpenAI's counts, whose input includes cached tokens."""
    cached = used.get("cached_input_tokens")
    whole = used.get("input_tokens")
    if type(cached) is not int or type(whole) is not int:
        return usage_of({"input_tokens": whole, "output_tokens": used.get("output_tokens")})
    return usage_of(
        {
            "input_tokens": max(whole - cached, 0),
            "output_tokens": used.get("output_tokens"),
            "cache_read_input_tokens": cached,
        }
    )
