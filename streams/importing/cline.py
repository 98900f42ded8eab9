"""Cline and Roo Code: a task's messages in Anthropic's form; tokens and costs are in a file beside them."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from haltline.interventions.agent.integrations.any_json import readable, text_of_blocks
from haltline.schemas.events import Kind, Outcome
from haltline.streams.importing.messages import Proposal, args_of, proposals, text_of
from haltline.streams.importing.reading import MAX_LINE_BYTES, Content
from haltline.streams.importing.spans import Part
from haltline.streams.importing.steps import Step, count, ended, inside, moment, objects, prompted, usage_of

_TALK: Final = frozenset({"attempt_completion", "ask_followup_question", "plan_mode_respond", "act_mode_respond"})
_TOOLS: Final = (
    "execute_command|read_file|write_to_file|replace_in_file|apply_diff|insert_content|search_and_replace|edit_file"
    "|search_files|list_files|list_code_definition_names|codebase_search|browser_action|use_mcp_tool"
    "|access_mcp_resource|web_fetch|web_search|update_todo_list|switch_mode|new_task|fetch_instructions|new_rule"
    "|run_slash_command|generate_image|load_mcp_documentation|condense"
)
"""What the model may write as an XML element; another element in its text is none of a tool."""
_CALL = re.compile(rf"<({_TOOLS})>(.*?)</\1>", re.DOTALL)
_FIELD = re.compile(r"<([a-z_]+)>(.*?)</\1>", re.DOTALL)
_RESULT = re.compile(r"\A\[(\w+)(?: for .*?)?\] Result:\n?", re.DOTALL)
_PROMPT = re.compile(r"<(?:task|feedback|user_message|answer)>")
_MODEL = re.compile(r"<model>([^<\n]{1,200})</model>")
_FAILED = "The tool execution failed with the following error"
_DENIED = "The user denied this operation"
_CODE = re.compile(r"\ACommand executed.{0,500}?Exit code: (-?\d+)", re.DOTALL)


def shows(content: Content) -> bool:
    """Whether these are such messages: with the task, or the surroundings that are told with each prompt."""
    return isinstance(content.value, list) and any(
        one.get("role") == "user" and any(mark in text_of(one.get("content")) for mark in ("<task>", "<environment_d"))
        for one in content.head
    )


def parts(lines: Iterable[dict[str, Any]], path: Path) -> Iterator[Part]:
    """The task, which is named as its folder is."""
    requests = [
        args_of(one.get("text")) or {} | {"ts": one.get("ts")}
        for one in _beside(path, "ui_messages.json")
        if one.get("say") == "api_req_started"
    ]
    times = [one.get("ts") for one in _beside(path, "ui_messages.json") if one.get("say") == "api_req_started"]
    named = [one.get("model_id") for one in objects(inside(_read(path, "task_metadata.json"), "model_usage"))]
    yield Part(path.parent.name, _steps(lines, requests, times, str(named[-1]) if named else ""))
