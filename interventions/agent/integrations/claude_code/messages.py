"""Messages in one line of Claude Code's JSON: of a transcript, or of `--output-format stream-json`.

A model message comes as several lines with the same id, one for each block of content, each with the usage of the
whole. Unknown shapes are skipped: the format is not a published standard.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from haltline.interventions.agent.producers.any_json import text_of_blocks
from haltline.schemas.events import Usage

_MAX = 2**53
_GOES_ON = frozenset({"tool_use", "pause_turn"})


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call proposed by the model."""

    call_id: str
    name: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call."""

    call_id: str
    content: Any
    is_error: bool


def tools_of(line: Mapping[str, Any]) -> Iterator[ToolUse | ToolResult]:
    """Yield the calls that a line proposes, and the results that it has."""
    for block in _content(line):
        kind = block.get("type")
        call_id = block.get("id") if kind == "tool_use" else block.get("tool_use_id")
        if not isinstance(call_id, str) or not call_id:
            continue
        if kind == "tool_use":
            args = block.get("input")
            yield ToolUse(call_id, str(block.get("name") or "unknown"), args if isinstance(args, dict) else {})
        elif kind == "tool_result":
            yield ToolResult(call_id, text_of_blocks(block.get("content")), block.get("is_error") is True)


def text_of(line: Mapping[str, Any]) -> str:
    """Return the text of the model or the user in a line."""
    return "\n".join(
        [
            block["text"]
            for block in _content(line)
            if block.get("type") == "text" and isinstance(block.get("text"), str)
        ]
    )


def subagent_of(line: Mapping[str, Any]) -> str | None:
    """Return the id of the tool call that started the line's subagent; None: the main agent."""
    parent = line.get("parent_tool_use_id")
    return parent if isinstance(parent, str) and parent else None


def ends_turn(line: Mapping[str, Any]) -> bool:
    """Return whether a line of the model is its answer, after which no tool result is expected.

    Releases without the reason write a line when a block is complete: there an answer is a text.
    """
    message = line.get("message")
    reason = message.get("stop_reason") if isinstance(message, dict) else None
    if isinstance(reason, str):
        return reason not in _GOES_ON
    types = {block.get("type") for block in _content(line)}
    return "text" in types and "tool_use" not in types


class Turn(NamedTuple):
    """A message of the model."""

    usage: Usage
    text: str = ""
    written: tuple[int, int] = (0, 0)
    """Of its input tokens, those written to the cache: for five minutes, and for an hour."""


class Turns:
    """Counts the usage of each message once, however many lines it has, and collects its text."""

    def __init__(self) -> None:
        self._id: str | None = None
        self._usage: Usage | None = None
        self._written = (0, 0)
        self._texts: list[str] = []
        self._is_counted = False

    def add(self, line: Mapping[str, Any]) -> Turn | None:
        """Return the previous message if this line starts another one."""
        message = line.get("message")
        if line.get("type") != "assistant" or not isinstance(message, dict):
            return None
        message_id = message.get("id")
        ended = None
        if message_id is None or message_id != self._id:
            ended, self._is_counted = self.rest(), False
        self._id = message_id if isinstance(message_id, str) else None
        if not self._is_counted:
            usage = message.get("usage")
            self._usage, self._written = usage_of(usage) or self._usage, written_of(usage)
            if text := text_of(line):
                self._texts.append(text)
        return ended

    def rest(self) -> Turn | None:
        """Return the last message, which is complete. Further lines of it do not count. None: its usage is unknown."""
        usage, self._usage = self._usage, None
        self._is_counted = usage is not None
        if usage is None:
            return None
        text = "\n".join(self._texts)
        self._texts = []
        return Turn(usage, text, self._written)


def usage_of(usage: object) -> Usage | None:
    """Return the usage as Anthropic's API counts it. Cache writes count as input, as they are charged as such."""
    if not isinstance(usage, dict):
        return None
    return Usage(
        input_tokens=_count(usage.get("input_tokens")) + _count(usage.get("cache_creation_input_tokens")),
        output_tokens=_count(usage.get("output_tokens")),
        cache_read_tokens=_count(usage.get("cache_read_input_tokens")),
    )


def written_of(usage: object) -> tuple[int, int]:
    """Return the input tokens that were written to the cache: for five minutes, and for an hour."""
    if not isinstance(usage, dict):
        return 0, 0
    whole, split = _count(usage.get("cache_creation_input_tokens")), usage.get("cache_creation")
    hour = _count(split.get("ephemeral_1h_input_tokens")) if isinstance(split, dict) else 0
    return whole - min(hour, whole), min(hour, whole)


def _count(value: object) -> int:
    return min(value, _MAX // 2) if type(value) is int and value > 0 else 0


def _content(line: Mapping[str, Any]) -> list[dict[str, Any]]:
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
