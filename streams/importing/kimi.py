"""Kimi CLI: a session as the JSON lines of its wire, also of its successor, Kimi Code.

Kimi Code has a file for each agent of a session, `SESSION/agents/AGENT/wire.jsonl`.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from haltline.interventions.agent.producers.any_json import text_of_blocks
from haltline.streams.importing.messages import args_of, text_of
from haltline.streams.importing.reading import Content, Source
from haltline.streams.importing.steps import Part, Step, TokenNames, ended, prompted, proposed, turn_of
from haltline.streams.importing.values import inside, moment, moment_of_ms

_TOKENS = TokenNames(
    "input_other input_cache_read input_cache_creation",
    "output",
    "input_cache_read",
    written="input_cache_creation",
)
_TOKENS_OF_CODE = TokenNames(
    "inputOther inputCacheRead inputCacheCreation", "output", "inputCacheRead", written="inputCacheCreation"
)


def shows(content: Content) -> bool:
    """Return whether the file has the lines of a wire."""
    return any(
        (line.get("type") == "metadata" and "protocol_version" in line) or "payload" in (line.get("message") or ())
        for line in content.head[:1]
    )


def parts(source: Source) -> Iterator[Part]:
    """Yield the session, named by its folder."""
    folder, below = source.path.parent, None
    if folder.parent.name == "agents":
        below = None if folder.name == "main" else folder.name
        folder = folder.parent.parent
    yield Part(folder.name, _steps(source.lines, below))


def _steps(lines: Iterable[dict[str, Any]], below: str | None) -> Iterator[Step]:
    calls = _Calls()
    for line in lines:
        if isinstance(inside(line, "message", "type"), str):
            found = calls.of(line["message"], moment(line.get("timestamp")))
        else:
            found = calls.of_code(line, moment_of_ms(line.get("time")))
        for step in found:
            step.below = step.below or below
            if below is None or step.prompt == "":  # what a subagent is asked is no prompt of the user
                yield step
    yield from calls.rest()


class _Calls:
    """What came in parts, and is not complete yet."""

    def __init__(self) -> None:
        self._waiting: Step | None = None
        self._text = ""
        self._said: list[str] = []

    def of(self, message: dict[str, Any], time_ms: int | None) -> Iterator[Step]:
        """Yield the steps of a message of Kimi CLI."""
        kind, payload = message["type"], message.get("payload")
        if kind == "ToolCallPart":
            self._text += str(inside(payload, "arguments_part") or "")
            return
        yield from self.rest()
        if kind == "TurnBegin":
            yield prompted(text_of(inside(payload, "user_input")), time_ms)
        elif kind == "ContentPart" and isinstance(inside(payload, "text"), str):
            self._said.append(inside(payload, "text"))
        elif kind == "ToolCall":
            self._waiting = proposed(inside(payload, "id"), inside(payload, "function", "name"), None, time_ms)
            self._text = str(inside(payload, "function", "arguments") or "")
        elif kind == "ToolResult":
            value = inside(payload, "return_value")
            output = text_of_blocks(inside(value, "output")) or inside(value, "message")
            yield ended(inside(payload, "tool_call_id"), output, time_ms, failed=inside(value, "is_error") is True)
        elif kind == "StatusUpdate":
            yield from turn_of(inside(payload, "token_usage"), _TOKENS, None, self._all_said(), time_ms)
        elif kind == "SubagentEvent" and isinstance(inside(event := inside(payload, "event"), "type"), str):
            yield from self._of_subagent(inside(payload, "task_tool_call_id"), event, time_ms)

    def rest(self) -> Iterator[Step]:
        """Yield the call whose arguments are complete now."""
        if self._waiting is not None:
            self._waiting.args = args_of(self._text)
            yield self._waiting
            self._waiting = None

    @staticmethod
    def _of_subagent(call_id: object, event: dict[str, Any], time_ms: int | None) -> Iterator[Step]:
        inner = _Calls()
        for step in (*inner.of(event, time_ms), *inner.rest()):
            step.below = step.below or str(call_id)
            if not step.prompt:
                yield step

    def of_code(self, line: dict[str, Any], time_ms: int | None) -> Iterator[Step]:
        """Yield the steps of a line of Kimi Code."""
        kind, event = line.get("type"), line.get("event")
        if kind == "turn.prompt" and inside(line, "origin", "kind") == "user":
            yield prompted(text_of(line.get("input")), time_ms)
        elif kind == "usage.record":
            yield from turn_of(line.get("usage"), _TOKENS_OF_CODE, line.get("model"), self._all_said(), time_ms)
        elif inside(event, "type") == "content.part" and isinstance(inside(event, "part", "text"), str):
            self._said.append(inside(event, "part", "text"))
        elif inside(event, "type") == "tool.call":
            yield proposed(inside(event, "toolCallId"), inside(event, "name"), inside(event, "args"), time_ms)
        elif inside(event, "type") == "tool.result":
            result = inside(event, "result")
            failed, output = inside(result, "isError") is True, inside(result, "output") or inside(result, "error")
            yield ended(inside(event, "toolCallId"), text_of_blocks(output), time_ms, failed=failed)

    def _all_said(self) -> str:
        """The text since the last turn."""
        text, self._said = "\n".join(self._said), []
        return text
