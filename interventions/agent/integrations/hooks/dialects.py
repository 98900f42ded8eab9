"""Dialects of hooks: each agent's input as a hook of Claude Code, and answers in each agent's format.

codex       like Claude Code, but ignores a denial with `continue`, and an `ask`; no hook ends a turn: of a program that
            runs without a person, the hook's process does, as Ctrl-C would
gemini-cli  BeforeTool, AfterTool ...: `decision` and `reason`; hints only with a result
cline       `cancel` ends the whole task; arguments cannot be changed; any other output than JSON is ignored
opencode    its plugin uses Claude Code's format
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from haltline.interventions.agent.producers.any_json import parsed
from haltline.interventions.state.texts import not_changed

JsonObject = dict[str, Any]
NOT_CALLS: Final = frozenset(
    {"SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "Stop", "SubagentStop",
     "SessionEnd", "Notification", "PreCompact"}
)  # fmt: skip
"""Hooks that precede no call."""
_GEMINI: Final = {
    "BeforeTool": "PreToolUse", "AfterTool": "PostToolUse", "BeforeAgent": "UserPromptSubmit", "AfterAgent": "Stop",
}  # fmt: skip
_CLINE: Final = {
    "TaskStart": "SessionStart", "TaskResume": "SessionStart", "TaskCancel": "Stop", "TaskComplete": "Stop",
    "agent_start": "SessionStart", "agent_resume": "SessionStart", "agent_abort": "Stop", "agent_error": "Stop",
    "agent_end": "Stop", "session_shutdown": "SessionEnd", "prompt_submit": "UserPromptSubmit",
    "tool_call": "PreToolUse", "tool_result": "PostToolUse",
}  # fmt: skip
"""By the name of an event in Cline's extension, and in its command line (3.0)."""
INTERRUPTS: Final = 130
"""The code of an answer at which the hook's process ends an agent that no hook can end."""
_BEFORE_CALLS = (b'"PreToolUse"', b'"BeforeTool"', b'"tool_call"')


class Answer(NamedTuple):
    """The output of a hook and its exit code, in Claude Code's format."""

    out: JsonObject
    err: str = ""
    code: int = 0


class Dialect(NamedTuple):
    """The differences of one agent from Claude Code."""

    read: Callable[[JsonObject], JsonObject]
    write: Callable[[str, Answer], Answer]
    hints_late: bool = False
    """A hint cannot accompany a call: it waits for the next result."""
    asks: bool = False
    """The agent can ask its user about a call."""
    has_batches: bool = False
    """A hook runs after all calls of a model's message."""
    is_cut_off: bool = False
    """Its turn is ended with no word about why, so the model and the user read that with the call before."""

    def hook_of(self, raw: bytes) -> JsonObject:
        """Parse the hook. Raises ValueError if it is invalid."""
        try:
            hook = parsed(raw)
        except ValueError:
            hook = None
        hook = self.read(hook) if isinstance(hook, dict) else {}
        session_id = hook.get("session_id")
        if not isinstance(session_id, str) or not session_id:
            raise ValueError("expected a hook on standard input, a JSON object with the session's id; got none")
        return hook


def reply_of(dialect: Dialect, event: str, answer: Answer) -> bytes:
    """Return the answer for the hook's process: the exit code, the lengths of both texts, and the texts."""
    out, err, code = dialect.write(event, answer)
    if err and not err.startswith("haltline"):
        err = f"haltline: hook: {err}"
    texts = (json.dumps(out).encode() + b"\n" if out else b"", f"{err}\n".encode() if err else b"")
    return b"%d %d %d\n" % (code, *map(len, texts)) + b"".join(texts)


def event_of(raw: bytes) -> str:
    """Return the event of an incomplete hook; for invalid JSON, whether it looks like a call."""
    try:
        hook = parsed(raw)
    except ValueError:
        return "PreToolUse" if any(name in raw for name in _BEFORE_CALLS) else ""
    event = str(hook.get("hook_event_name", hook.get("hookName", ""))) if isinstance(hook, dict) else ""
    return _GEMINI.get(event) or _CLINE.get(event) or event


def denied(reason: str) -> JsonObject:
    """Return the answer to a call that must not be made."""
    output = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": output}


def _same(hook: JsonObject) -> JsonObject:
    return hook


def _without_transcript(hook: JsonObject) -> JsonObject:
    """Remove the transcripts: those of other agents have other formats."""
    return {name: value for name, value in hook.items() if name not in {"transcript_path", "agent_transcript_path"}}


def _as_printed(_: str, answer: Answer) -> Answer:
    return answer


def _specific(out: Mapping[str, Any]) -> tuple[JsonObject, str, str | None]:
    """Return the fields of the call, the hint, and why it is refused; a question to the user is a refusal here."""
    specific = dict(out.get("hookSpecificOutput") or {})
    verdict = specific.get("permissionDecision")
    is_refused = verdict == "deny" or (verdict == "ask" and "updatedInput" not in specific)
    reason = str(specific.get("permissionDecisionReason") or "haltline: refused")
    return specific, str(specific.get("additionalContext") or ""), reason if is_refused else None


def _to_codex(event: str, answer: Answer) -> Answer:
    out, (specific, _, refused) = answer.out, _specific(answer.out)
    stop = out.get("stopReason")
    if stop is not None and event in {"PreToolUse", "UserPromptSubmit"}:
        answer = answer._replace(err=stop, code=INTERRUPTS)
    if event != "PreToolUse":
        return answer
    if refused is not None:
        specific = {**denied(refused)["hookSpecificOutput"]}
    elif "updatedInput" in specific:
        specific["permissionDecision"] = "allow"
    out = {name: value for name, value in out.items() if name not in {"continue", "stopReason"}}
    out |= {"hookSpecificOutput": specific} if specific else {}
    return answer._replace(out=out)


def _from_gemini(hook: JsonObject) -> JsonObject:
    event, result = hook.get("hook_event_name"), hook.get("tool_response")
    hook = _without_transcript(hook) | {"hook_event_name": _GEMINI.get(str(event), event)}
    if isinstance(result, dict) and hook["hook_event_name"] == "PostToolUse":
        hook["tool_response"] = result.get("llmContent", result)
        if result.get("error"):
            hook |= {"hook_event_name": "PostToolUseFailure", "error": json.dumps(result["error"], default=str)}
    return hook


def _to_gemini(event: str, answer: Answer) -> Answer:
    out, (specific, hints, refused) = dict(answer.out), _specific(answer.out)
    out.pop("hookSpecificOutput", None)
    if refused is not None:
        out |= {"decision": "deny", "reason": refused}
    elif "updatedInput" in specific:
        out["hookSpecificOutput"] = {"hookEventName": "BeforeTool", "tool_input": specific["updatedInput"]}
    elif hints and event.startswith("PostToolUse"):
        out["hookSpecificOutput"] = {"hookEventName": "AfterTool", "additionalContext": hints}
    return answer._replace(out=out)


def _from_cline(hook: JsonObject) -> JsonObject:
    event = _CLINE.get(str(hook.get("hookName")), str(hook.get("hookName")))
    before, after, prompted = (hook.get(name) for name in ("preToolUse", "postToolUse", "userPromptSubmit"))
    call = before if isinstance(before, dict) else after if isinstance(after, dict) else {}
    read: JsonObject = {"hook_event_name": event, "session_id": hook.get("taskId")}
    if event in {"PreToolUse", "PostToolUse"}:
        # The command line gives the values beside their texts.
        whole = hook.get("tool_call") or hook.get("tool_result")
        whole = whole if isinstance(whole, dict) else {}
        results = whole.get("output")
        read |= {"tool_name": call.get("toolName"), "tool_input": whole.get("input", call.get("parameters"))}
        read |= {"tool_response": call.get("result"), "tool_use_id": whole.get("id")}
        failed = (
            [one for one in results if isinstance(one, dict) and one.get("success") is False]
            if isinstance(results, list)
            else []
        )
        if call.get("success") is False or failed:
            error = "\n".join(str(one.get("result") or one.get("error")) for one in failed) or call.get("result")
            read |= {"hook_event_name": "PostToolUseFailure", "error": str(error or "failed")}
    if isinstance(prompted, dict):
        read["prompt"] = prompted.get("prompt")
    return read


def _to_cline(_: str, answer: Answer) -> Answer:
    specific, hints, refused = _specific(answer.out)
    if answer.out.get("continue") is False:
        refused = str(answer.out.get("stopReason"))
    elif "updatedInput" in specific:
        refused = not_changed(specific["updatedInput"])
    elif answer.code == 2:
        refused = refused or answer.err
    context = "\n".join(filter(None, (answer.out.get("systemMessage"), hints)))
    out: JsonObject = {"cancel": refused is not None}
    out |= {"errorMessage": refused} if refused is not None else {}
    return Answer(out | ({"contextModification": context} if context else {}), answer.err)


DIALECTS: Final = {
    "claude-code": Dialect(_same, _as_printed, asks=True, has_batches=True),
    "codex": Dialect(_without_transcript, _to_codex, is_cut_off=True),
    "gemini-cli": Dialect(_from_gemini, _to_gemini, hints_late=True),
    "cline": Dialect(_from_cline, _to_cline),
    "opencode": Dialect(_without_transcript, _as_printed),
}
"""By the agent's name, as in `haltline hook --for`."""
