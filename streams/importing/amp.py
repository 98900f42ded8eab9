"""Amp: a thread as one JSON value, with messages in Anthropic's form and a `run` for each result."""

from collections.abc import Iterator
from typing import Any

from haltline.interventions.agent.producers.any_json import text_of_blocks
from haltline.schemas.events import Outcome
from haltline.streams.importing.messages import proposals, text_of
from haltline.streams.importing.reading import Content, Source
from haltline.streams.importing.steps import Part, Step, TokenNames, ended, prompted, proposed, turn_of
from haltline.streams.importing.values import inside, moment, moment_of_ms, objects

_TOKENS = TokenNames(
    "inputTokens cacheCreationInputTokens cacheReadInputTokens",
    "outputTokens",
    "cacheReadInputTokens",
    written="cacheCreationInputTokens",
)
_REFUSED = frozenset({"cancelled", "rejected-by-user"})


def shows(content: Content) -> bool:
    """Return whether the file is a thread of Amp."""
    whole = content.value
    return str(inside(whole, "id")).startswith("T-") and isinstance(inside(whole, "messages"), list)


def parts(source: Source) -> Iterator[Part]:
    """Yield the thread."""
    for whole in source.lines:
        named = whole.get("id")
        yield Part(named, _steps(whole))


def _steps(whole: dict[str, Any]) -> Iterator[Step]:
    """Yield the steps. Only prompts and turns have a time; a result gets the time of its turn."""
    time_ms = moment_of_ms(whole.get("created"))
    for message in objects(whole.get("messages")):
        sent, used = inside(message, "meta", "sentAt"), message.get("usage")
        time_ms = moment_of_ms(sent) or moment(inside(used, "timestamp")) or time_ms
        if message.get("role") == "user":
            results = [one for one in objects(message.get("content")) if one.get("type") == "tool_result"]
            for result in results:
                yield _end(result, time_ms)
            if not results and (prompt := text_of(message.get("content"))):
                yield prompted(prompt, time_ms)
        elif message.get("role") == "assistant":
            yield from turn_of(used, _TOKENS, inside(used, "model"), text_of(message.get("content")), time_ms)
            for call in proposals(message.get("content")):
                yield proposed(call.call_id, call.name, call.args, time_ms)


def _end(block: dict[str, Any], time_ms: int | None) -> Step:
    call_id, run = block.get("toolUseID"), block.get("run")
    result, status = inside(run, "result"), inside(run, "status")
    code = inside(result, "exitCode")
    failed = status == "error" or code not in (None, 0)
    output = inside(result, "output") if isinstance(inside(result, "output"), str) else text_of_blocks(result)
    if status == "error":
        output = inside(run, "error", "message") or inside(run, "error") or output
    done = ended(call_id, output, time_ms, failed=failed)
    if str(status) in _REFUSED:
        done.outcome, done.error = Outcome.REFUSED, None
    return done
