"""Google's ADK: a session as written by `model_dump_json()`, the web interface and `adk run --save_session`."""

from collections.abc import Iterator
from typing import Any

from haltline.streams.importing.reading import Content, Source
from haltline.streams.importing.spans import Part
from haltline.streams.importing.steps import Step, TokenNames, ended, proposed, tokens, turn
from haltline.streams.importing.values import inside, moment, objects

_TOKENS = TokenNames(
    "promptTokenCount prompt_token_count toolUsePromptTokenCount tool_use_prompt_token_count",
    "candidatesTokenCount candidates_token_count thoughtsTokenCount thoughts_token_count",
    "cachedContentTokenCount cached_content_token_count",
)
"""The names in JSON and in Python; each session has only one kind."""


def shows(content: Content) -> bool:
    """Return whether the file has such sessions."""
    return any(map(_is_session, content.head))


def parts(source: Source) -> Iterator[Part]:
    """Yield the sessions."""
    for session in filter(_is_session, source.lines):
        yield Part(session.get("id"), _steps(source.objects("events", session["events"])))


def _is_session(value: object) -> bool:
    """Return whether it is a session, with names as in Python or as in JSON."""
    return isinstance(inside(value, "events"), list) and isinstance(
        inside(value, "appName") or inside(value, "app_name"), str
    )


def _steps(events: list[dict[str, Any]]) -> Iterator[Step]:
    """Yield the steps. Agents that transfer control to each other are one session."""
    for event in events:
        seconds = event.get("timestamp")
        time_ms = moment(seconds) if isinstance(seconds, int | float) else None
        parts = objects(inside(event, "content", "parts"))
        usage = tokens(event.get("usageMetadata", event.get("usage_metadata")), _TOKENS)
        if usage is not None and event.get("partial") is not True:
            texts = [p["text"] for p in parts if isinstance(p.get("text"), str) and p.get("thought") is not True]
            yield from turn(usage, None, "\n".join(texts), time_ms)
        for part in parts:
            if event.get("partial") is True:
                continue
            call = part.get("functionCall", part.get("function_call"))
            response = part.get("functionResponse", part.get("function_response"))
            if isinstance(call, dict):
                yield proposed(_call_id(call, event), call.get("name"), call.get("args"), time_ms)
            elif isinstance(response, dict):
                yield _end(response, event, time_ms)


def _end(response: dict[str, Any], event: dict[str, Any], time_ms: int | None) -> Step:
    """Return the end of a call. It failed if its response has an `error`: ADK records nothing else."""
    answer = response.get("response")
    error = inside(answer, "error")
    output = answer["result"] if isinstance(answer, dict) and set(answer) == {"result"} else answer
    done = ended(_call_id(response, event), output, time_ms, failed=bool(error))
    done.action = str(response.get("name") or "unknown")
    done.error = str(error)[:2000] if error else None
    return done


def _call_id(part: dict[str, Any], event: dict[str, Any]) -> str:
    """Return the call's id, or one made of its invocation and name: calls of live models have no id."""
    return str(part.get("id") or f"{event.get('invocationId', event.get('invocation_id'))}-{part.get('name')}")[:256]
