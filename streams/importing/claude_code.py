"""Claude Code: its transcripts, and the output of `--output-format stream-json`."""

from collections.abc import Iterable, Iterator
from typing import Any

from haltline.interventions.agent.integrations.claude_code.messages import (
    ToolUse,
    Turn,
    Turns,
    subagent_of,
    text_of,
    tools_of,
)
from haltline.streams.importing.reading import Content, Source
from haltline.streams.importing.steps import Part, Step, ended, prompted, proposed, turn
from haltline.streams.importing.values import inside, moment, text

_MESSAGES = ("assistant", "user")
"""Lines of other types can repeat a message: a request to the model contains the results of the previous turn."""
_OWN = ("isMeta", "isCompactSummary")
"""Fields of lines that Claude Code itself wrote as the user."""


def shows(content: Content) -> bool:
    """Return whether the file has lines of Claude Code."""
    return any(line.get("type") in _MESSAGES and "content" in _message(line) for line in content.head)


def _message(line: dict[str, Any]) -> dict[str, Any]:
    message = line.get("message")
    return message if isinstance(message, dict) else {}


def parts(source: Source) -> Iterator[Part]:
    """Yield the session, with the id in its lines."""
    named = (line.get("sessionId") or line.get("session_id") for line in source.lines)
    yield Part(next((name for name in named if isinstance(name, str) and name), None), _steps(source.lines))


def _steps(lines: Iterable[dict[str, Any]]) -> Iterator[Step]:
    """Yield the steps. All subagents of a transcript are one, because its lines do not distinguish them."""
    turns: dict[str | None, Turns] = {}
    times_ms: dict[str | None, int | None] = {}
    models: dict[str | None, str] = {}
    for line in lines:
        if line.get("type") not in _MESSAGES:
            continue
        below = text(subagent_of(line) or line.get("agentId") or ("sidechain" if line.get("isSidechain") else None))
        time_ms = moment(line.get("timestamp"))
        counted = turns.setdefault(below, Turns())
        tools = list(tools_of(line))
        is_prompt = below is None and not tools and _is_prompt(line)
        ended_turn = counted.rest() if is_prompt else counted.add(line)
        if ended_turn is not None:
            yield from _turn(ended_turn, models.get(below), time_ms, below)
        if isinstance(model := inside(line, "message", "model"), str):
            models[below] = model
        times_ms[below] = time_ms or times_ms.get(below)
        if is_prompt:
            yield prompted(text_of(line), time_ms)
        for tool in tools:
            if isinstance(tool, ToolUse):
                yield proposed(tool.call_id, tool.name, tool.args, time_ms, below=below)
            else:
                yield ended(tool.call_id, tool.content, time_ms, failed=tool.is_error, below=below)
    for below, left in turns.items():
        ended_turn = left.rest()
        if ended_turn is not None:
            yield from _turn(ended_turn, models.get(below), times_ms.get(below), below)


def _turn(ended_turn: Turn, model: str | None, time_ms: int | None, below: str | None) -> Iterator[Step]:
    yield from turn(ended_turn.usage, model, ended_turn.text, time_ms, written=ended_turn.written, below=below)


def _is_prompt(line: dict[str, Any]) -> bool:
    """Return whether a line without a result is a prompt of the user, and not an addition by Claude Code."""
    return line.get("type") == "user" and not any(line.get(name) is True for name in _OWN) and bool(text_of(line))
