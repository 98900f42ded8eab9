"""Droid of Factory: a session as JSON lines, of messages in Anthropic's form.

What it used is in another file beside, as a sum of all turns.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from haltline.interventions.agent.producers.any_json import readable, text_of_blocks
from haltline.interventions.agent.user_files import open_file
from haltline.streams.importing.messages import proposals, text_of
from haltline.streams.importing.reading import MAX_LINE_BYTES, Content, Source
from haltline.streams.importing.steps import Part, Step, TokenNames, ended, prompted, proposed, turn_of
from haltline.streams.importing.values import inside, moment, objects

_TOKENS = TokenNames(
    "inputTokens cacheReadTokens cacheCreationTokens", "outputTokens", "cacheReadTokens", written="cacheCreationTokens"
)


def shows(content: Content) -> bool:
    """Return whether the file is such a session."""
    return any(one.get("type") == "session_start" and isinstance(one.get("cwd"), str) for one in content.head)


def parts(source: Source) -> Iterator[Part]:
    """Yield the session."""
    named = next((line.get("id") for line in source.lines if line.get("type") == "session_start"), None)
    yield Part(named, _steps(source.lines, _settings(source.path)))


def _settings(path: Path) -> object:
    try:
        with open_file(path.with_suffix(".settings.json")) as file:
            return readable(file.read(MAX_LINE_BYTES))
    except (OSError, ValueError):
        return None


def _steps(lines: Iterable[dict[str, Any]], settings: object) -> Iterator[Step]:
    model, time_ms = inside(settings, "model"), None
    for line in lines:
        message = line.get("message")
        if line.get("type") != "message" or not isinstance(message, dict):
            continue
        if "llm_only" in (message.get("visibility"), line.get("visibility")):  # what the program adds
            continue
        content, time_ms = message.get("content"), moment(line.get("timestamp")) or time_ms
        model = message.get("modelId") or model
        results = [block for block in objects(content) if block.get("type") == "tool_result"]
        for call in proposals(content):
            yield proposed(call.call_id, call.name, call.args, time_ms)
        for block in results:
            output, failed = text_of_blocks(block.get("content")), block.get("is_error") is True
            yield ended(block.get("tool_use_id"), output, time_ms, failed=failed)
        if message.get("role") == "user" and not results and (text := text_of(content)):
            yield prompted(text, time_ms)
    yield from turn_of(inside(settings, "tokenUsage"), _TOKENS, model, None, time_ms)
