"""Cline and Roo Code: a task's messages in Anthropic's form; tokens and costs are in another file of the task.

Cline's command line (3.0) writes them with each message, and all messages in one object.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from haltline.interventions.agent.producers.any_json import readable, text_of_blocks
from haltline.interventions.agent.user_files import open_file
from haltline.schemas import expressions as re
from haltline.schemas.events import Outcome
from haltline.streams.importing.messages import Proposal, args_of, proposals, text_of
from haltline.streams.importing.reading import MAX_LINE_BYTES, Content, Source
from haltline.streams.importing.steps import Part, Step, TokenNames, ended, prompted, proposed, turn_of
from haltline.streams.importing.values import inside, moment_of_ms, objects

_TALK: Final = frozenset({"attempt_completion", "ask_followup_question", "plan_mode_respond", "act_mode_respond"})
_TOOLS: Final = (
    "execute_command|read_file|write_to_file|replace_in_file|apply_diff|insert_content|search_and_replace|edit_file"
    "|search_files|list_files|list_code_definition_names|codebase_search|browser_action|use_mcp_tool"
    "|access_mcp_resource|web_fetch|web_search|update_todo_list|switch_mode|new_task|fetch_instructions|new_rule"
    "|run_slash_command|generate_image|load_mcp_documentation|condense"
)
"""Tools that the model calls by an XML element in its text; other elements are not calls."""
_CALL = re.compile(rf"<({_TOOLS}|{'|'.join(sorted(_TALK))})>")
_FIELD = re.compile(r"<([a-z_]+)>")
_CLOSED = re.compile(r"</([a-z_]+)>")
_RESULT = re.compile(r"\A\[(\w+)(?: for .*?)?\] Result:\n?", re.DOTALL)
_PROMPT = re.compile(r"<(?:task|feedback|user_message|answer)>(.*?)(?:</|\Z)", re.DOTALL)
_MODEL = re.compile(r"<model>([^<\n]{1,200})</model>")
_FAILED = "The tool execution failed with the following error"
_DENIED = "The user denied this operation"
_OF_COMMAND_LINE = TokenNames("inputTokens", "outputTokens", "cacheReadTokens")
_TOKENS = TokenNames("tokensIn cacheReads cacheWrites", "tokensOut", "cacheReads", "cost", "cacheWrites")
_CHAT = TokenNames("tokensIn", "tokensOut", "cacheReads", "cost")
"""By OpenAI's protocol, the input includes cached tokens."""
_CODE = re.compile(r"\ACommand executed.{0,500}?Exit code: (-?\d+)", re.DOTALL)


def shows(content: Content) -> bool:
    """Return whether the file has such messages: with the task, or with the environment details of each prompt."""
    return _is_of_command_line(content.value) or (
        isinstance(content.value, list)
        and any(
            one.get("role") == "user"
            and any(mark in text_of(one.get("content")) for mark in ("<task>", "<environment_d"))
            for one in content.head
        )
    )


def parts(source: Source) -> Iterator[Part]:
    """Yield the task, named by its folder; a session of Cline's command line has an id of its own."""
    listed = list(source.lines)
    for session in filter(_is_of_command_line, listed):
        yield Part(session["sessionId"], _of_command_line(objects(session["messages"])))
        return
    started = [one for one in objects(_beside(source.path, "ui_messages.json")) if one.get("say") == "api_req_started"]
    requests = [(args_of(one.get("text")) or {}) | {"ts": one.get("ts")} for one in started]
    models = objects(inside(_beside(source.path, "task_metadata.json"), "model_usage"))
    model = models[-1].get("model_id") if models else ""
    yield Part(source.path.parent.name, _steps(listed, requests, model if isinstance(model, str) else ""))


def _is_of_command_line(value: object) -> bool:
    named = isinstance(inside(value, "sessionId"), str) and inside(value, "origin") is not None
    return named and isinstance(inside(value, "messages"), list)


def _of_command_line(messages: list[dict[str, Any]]) -> Iterator[Step]:
    for message in messages:
        content, time_ms, used = message.get("content"), moment_of_ms(message.get("ts")), message.get("metrics")
        results = [block for block in objects(content) if block.get("type") == "tool_result"]
        if message.get("role") == "assistant":
            yield from turn_of(used, _OF_COMMAND_LINE, inside(message, "modelInfo", "id"), text_of(content), time_ms)
            for call in proposals(content):
                yield proposed(call.call_id, call.name, call.args, time_ms)
        elif not results:
            yield prompted(text_of(content), time_ms)
        for block in results:
            output, call_id = block.get("content"), block.get("tool_use_id")
            texts = [str(one.get("result") or one.get("error") or "") for one in objects(output) if "success" in one]
            failed = any(one.get("success") is False for one in objects(output))
            text = "\n".join(texts) if texts else text_of_blocks(output)
            yield ended(call_id, text, time_ms, failed=failed)


def _beside(path: Path, name: str) -> object:
    """Return the content of another file of the task; None: it cannot be read."""
    try:
        with open_file(path.parent / name) as file:
            return readable(file.read(MAX_LINE_BYTES))
    except (OSError, ValueError):
        return None


def _steps(lines: Iterable[dict[str, Any]], requests: list[dict[str, Any]], model: str) -> Iterator[Step]:
    turns = 0
    waiting: list[str] = []
    time_ms: int | None = None
    for line in lines:
        text = text_of(line.get("content"))
        if line.get("role") == "assistant":
            request = requests[turns] if turns < len(requests) else {}
            turns += 1
            named = inside(line, "modelInfo", "modelId")
            model = named if isinstance(named, str) else model
            time_ms = moment_of_ms(line.get("ts")) or moment_of_ms(request.get("ts")) or time_ms
            names = _CHAT if request.get("apiProtocol") == "openai" else _TOKENS
            yield from turn_of(request, names, model, _elements(_CALL, text)[1].strip(), time_ms)
            waiting = []
            for number, call in enumerate(_calls(line.get("content"), text)):
                call_id = call.call_id or f"c{turns}.{number}"
                waiting.append(call_id)
                if call.name not in _TALK:
                    yield proposed(call_id, call.name, call.args, time_ms)
        elif line.get("role") == "user":
            time_ms = moment_of_ms(line.get("ts")) or time_ms
            if found := _MODEL.search(text):
                model = found[1]
            yield from _results(line.get("content"), waiting, time_ms)
            if found := _PROMPT.search(text):
                yield prompted(found[1], time_ms)


def _elements(begin: re.Pattern[str], text: str) -> tuple[list[tuple[str, str]], str]:
    """Return the name and the content of each element, and the text outside of them. Elements are not nested."""
    last = {closed[1]: closed.start() for closed in _CLOSED.finditer(text)}
    elements: list[tuple[str, str]] = []
    outside: list[str] = []
    at = kept = 0
    while (begun := begin.search(text, at)) is not None:
        name, at = begun[1], begun.end()
        if last.get(name, -1) >= at:
            end = text.index(f"</{name}>", at)
            elements.append((name, text[at:end]))
            outside.append(text[kept : begun.start()])
            at = kept = end + len(f"</{name}>")
    return elements, "".join((*outside, text[kept:]))


def _calls(content: object, text: str) -> Iterator[Proposal]:
    """Yield the calls of a message: blocks since 2025, XML in its text before."""
    native = list(proposals(content))
    written = [Proposal(None, name, dict(_elements(_FIELD, body)[0])) for name, body in _elements(_CALL, text)[0]]
    for call in native or written:
        args = call.args or {}
        if call.name == "use_mcp_tool" and isinstance(args.get("tool_name"), str):
            name = f"mcp__{args.get('server_name')}__{args['tool_name']}"
            yield Proposal(call.call_id, name, args_of(args.get("arguments")))
        else:
            yield call


def _results(content: object, waiting: list[str], time_ms: int | None) -> Iterator[Step]:
    """Yield the results of a message: blocks, or texts after a heading with the tool's name."""
    found: list[tuple[str | None, str, list[Any]]] = []
    for block in objects(content if isinstance(content, list) else [{"type": "text", "text": content}]):
        text = block.get("text")
        if block.get("type") == "tool_result":
            call_id = block.get("tool_use_id")
            text = text_of_blocks(block.get("content"))
            found.append((call_id if isinstance(call_id, str) else None, "", [text]))
        elif not isinstance(text, str) or text.startswith("<environment_details>"):
            continue
        elif heading := _RESULT.match(text):
            found.append((waiting.pop(0) if waiting else None, heading[1], [text[heading.end() :]]))
        elif found and found[-1][1]:
            found[-1][2].append(text)
    for call_id, name, texts in found:
        if call_id is None or name in _TALK:
            continue
        kept = [text for text in texts if text != ""]
        whole = all(isinstance(text, str) for text in kept)
        yield _end(call_id, "\n".join(kept) if whole else kept[0], time_ms)


def _end(call_id: str, output: object, time_ms: int | None) -> Step:
    head = output if isinstance(output, str) else ""
    code = _CODE.match(head)
    done = ended(call_id, output, time_ms, failed=head.startswith(_FAILED) or bool(code and int(code[1])))
    if head.startswith(_DENIED):
        done.outcome = Outcome.REFUSED
    return done
