"""Copilot CLI: the events of a session as JSON lines."""

from collections.abc import Iterable, Iterator
from typing import Any

from haltline.streams.importing.messages import args_of, parsed
from haltline.streams.importing.reading import Content, Source
from haltline.streams.importing.steps import Part, Step, TokenNames, ended, prompted, proposed, tokens, turn
from haltline.streams.importing.values import inside, moment, text

_TOKENS = TokenNames("", "outputTokens")


def shows(content: Content) -> bool:
    """Return whether the file has such events."""
    return any(
        isinstance(one.get("data"), dict) and str(one.get("type")).startswith(("session.", "tool.execution_"))
        for one in content.head
    )


def parts(source: Source) -> Iterator[Part]:
    """Yield the session, named by its folder if its events have no id."""
    named = next(
        (inside(line, "data", "sessionId") for line in source.lines if line.get("type") == "session.start"), None
    )
    yield Part(named if isinstance(named, str) else source.path.parent.name, _steps(source.lines))


def _steps(lines: Iterable[dict[str, Any]]) -> Iterator[Step]:
    """Yield the steps. A turn has output tokens only: input tokens are reported once, for the whole session."""
    model = ""
    for line in lines:
        data, kind, time_ms = line.get("data"), line.get("type"), moment(line.get("timestamp"))
        if not isinstance(data, dict):
            continue
        named = data.get("newModel") or data.get("selectedModel") or data.get("model") or data.get("currentModel")
        model = named if isinstance(named, str) else model
        call_id, below = data.get("toolCallId"), text(data.get("parentToolCallId")) or None
        if kind == "user.message":
            yield prompted(data.get("content"), time_ms)
        elif kind == "assistant.message":
            yield from turn(tokens(data, _TOKENS), model, data.get("content"), time_ms, below=below)
        elif kind == "tool.execution_start":
            yield proposed(call_id, data.get("toolName"), args_of(data.get("arguments")), time_ms, below=below)
        elif kind == "tool.execution_complete":
            failed = data.get("success") is False
            result = data.get("error") if failed and data.get("error") else data.get("result")
            whole = parsed(result)
            output = next((whole[n] for n in ("content", "message") if isinstance(whole, dict) and n in whole), result)
            yield ended(call_id, output, time_ms, failed=failed, below=below)
