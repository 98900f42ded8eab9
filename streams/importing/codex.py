"""Codex CLI: its rollouts, with a line for each answer of the model, each result of a tool, and each other event."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from haltline.interventions.agent.producers.any_json import text_of_blocks
from haltline.schemas import expressions as re
from haltline.streams.importing.messages import args_of, parsed, text_of
from haltline.streams.importing.reading import Content, Source
from haltline.streams.importing.steps import Part, Step, TokenNames, ended, prompted, proposed, tokens, turn
from haltline.streams.importing.values import inside, moment, text

_LINES: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context"})
_CALLS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
_ENDED: Final = frozenset({"function_call_output", "custom_tool_call_output"})
_TOKENS = TokenNames("input_tokens", "output_tokens", "cached_input_tokens")
_CODE = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d+)$", re.MULTILINE)
_HEAD_CHARS = 1000
"""The exit code of a command is within the first lines of its output."""


def shows(content: Content) -> bool:
    """Return whether the file is a rollout. Those before September 2025 have no `payload`, and are not read."""
    return any(str(line.get("type")) in _LINES and isinstance(line.get("payload"), dict) for line in content.head)


def parts(source: Source) -> Iterator[Part]:
    """Yield the session: the first id. A rollout that continues another one has that one's id in a later line."""
    named = (inside(line, "payload", "id") for line in source.lines if line.get("type") == "session_meta")
    yield Part(next(named, None), _steps(source.lines))


def _steps(lines: Iterable[dict[str, Any]]) -> Iterator[Step]:
    model, counted = "", None
    texts: list[str] = []
    failed: dict[str, bool] = {}
    for line in lines:
        payload, time_ms = line.get("payload"), moment(line.get("timestamp"))
        if not isinstance(payload, dict):
            continue
        kind, call_id = payload.get("type"), text(payload.get("call_id") or payload.get("id"))
        if line.get("type") == "turn_context" and isinstance(payload.get("model"), str):
            model = payload["model"]
        elif line.get("type") == "response_item":
            if str(kind) in _CALLS:
                yield _call(payload, call_id, time_ms)
            elif str(kind) in _ENDED:
                output = payload.get("output")
                stated = failed.get(call_id) if call_id else None
                yield ended(call_id, _result(output), time_ms, failed=_failed(output) if stated is None else stated)
            elif kind == "message" and payload.get("role") == "assistant":
                texts.append(text_of(payload.get("content")))
        elif line.get("type") == "event_msg":
            if kind == "user_message":
                yield prompted(payload.get("message"), time_ms)
            elif (
                kind == "token_count" and (info := payload.get("info")) and inside(info, "total_token_usage") != counted
            ):
                counted = inside(
                    info, "total_token_usage"
                )  # a change of the rate limit repeats the usage of the last turn
                usage = tokens(inside(info, "last_token_usage"), _TOKENS)
                if usage is not None:
                    yield from turn(usage, model, "\n".join(filter(None, texts)), time_ms)
                    texts.clear()
            elif call_id is not None and (stated := _stated(payload)) is not None:
                failed[call_id] = stated


def _call(payload: dict[str, Any], call_id: str | None, time_ms: int | None) -> Step:
    name = payload.get("name")
    if payload.get("type") == "local_shell_call":
        args = payload.get("action")
    else:
        args = payload.get("arguments", payload.get("input"))
    fields = args_of(args)
    if fields is None and isinstance(args, str):
        fields = {"input": args}
    action = name if isinstance(name, str) and name else "shell"
    return proposed(call_id, action, fields, time_ms)


def _stated(payload: dict[str, Any]) -> bool | None:
    """Return whether the call failed, as stated by its event; None: not stated."""
    if isinstance(payload.get("exit_code"), int):
        return bool(payload["exit_code"])
    if isinstance(payload.get("success"), bool):
        return not payload["success"]
    result = payload.get("result")
    if isinstance(result, dict) and ("Ok" in result or "Err" in result):
        return "Err" in result or inside(result, "Ok", "isError") is True or inside(result, "Ok", "is_error") is True
    return None


def _result(output: object) -> Any:
    """Return the result of a tool, without the envelope that Codex adds."""
    whole = parsed(output)
    if isinstance(whole, dict):
        whole = next((whole[name] for name in ("output", "content") if name in whole), output)
    return text_of_blocks(whole) if isinstance(whole, list) else whole


def _failed(output: object) -> bool | None:
    """Return whether a call failed, as stated by its output; None: not stated."""
    whole = args_of(output)
    code = inside(whole, "metadata", "exit_code")
    if isinstance(code, int):
        return bool(code)
    if isinstance(inside(whole, "success"), bool):
        return not inside(whole, "success")
    found = _CODE.search(output[:_HEAD_CHARS].partition("\nOutput:")[0]) if isinstance(output, str) else None
    return bool(int(found[1])) if found else None
