"""trae-agent: a trajectory with each request to the model, and each step with its calls and their results."""

from collections.abc import Iterator
from typing import Any

from haltline.streams.importing.messages import args_of
from haltline.streams.importing.reading import Content, Source
from haltline.streams.importing.steps import Part, Step, TokenNames, ended, proposed, turn_of
from haltline.streams.importing.values import inside, moment, objects

_TOKENS = TokenNames("input_tokens", "output_tokens", "cache_read_input_tokens")
_ANTHROPIC = _TOKENS._replace(
    whole="input_tokens cache_read_input_tokens cache_creation_input_tokens", written="cache_creation_input_tokens"
)


def shows(content: Content) -> bool:
    """Return whether the file is such a trajectory."""
    return isinstance(inside(content.value, "llm_interactions"), list)


def parts(source: Source) -> Iterator[Part]:
    """Yield the task, named by its file."""
    for whole in source.lines:
        yield Part(None, _steps(whole))


def _steps(whole: dict[str, Any]) -> Iterator[Step]:
    turns = [(moment(one.get("timestamp")), _turn(one)) for one in objects(whole.get("llm_interactions"))]
    done = 0
    for step in objects(whole.get("agent_steps")):
        time_ms = moment(step.get("timestamp"))
        while done < len(turns) and (turns[done][0] or 0) <= (time_ms or 0):
            yield from turns[done][1]
            done += 1
        for call in objects(step.get("tool_calls")):
            yield proposed(call.get("call_id"), call.get("name"), args_of(call.get("arguments")), time_ms)
        for result in objects(step.get("tool_results")):
            failed = result.get("success") is not True
            output = (result.get("error") or result.get("result")) if failed else result.get("result")
            yield ended(result.get("call_id"), output, time_ms, failed=failed)
    for _, rest in turns[done:]:
        yield from rest


def _turn(one: dict[str, Any]) -> Iterator[Step]:
    response, names = one.get("response"), _ANTHROPIC if one.get("provider") == "anthropic" else _TOKENS
    used, said = inside(response, "usage"), inside(response, "content")
    yield from turn_of(used, names, one.get("model"), said, moment(one.get("timestamp")))
