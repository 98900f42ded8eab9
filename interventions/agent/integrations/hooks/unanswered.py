"""Answers to hooks without a verdict: by the guard's fail policy, and by the last known stop."""

from collections.abc import Mapping
from typing import Any

from haltline.interventions.agent.enforcement.refusal_cause import NOBODY
from haltline.interventions.agent.integrations.claude_code.hooks import halted, stopped_answer
from haltline.interventions.agent.integrations.claude_code.stops import Stop
from haltline.interventions.agent.integrations.hooks.dialects import NOT_CALLS, Answer, denied
from haltline.interventions.agent.integrations.hooks.stored import Stored
from haltline.interventions.agent.service.unavailable import is_closed
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.state.texts import NOT_CHECKED

_NO_DECISIONS = "no decisions are available for this session. Calls that destroy something are refused; all others run."
_HALTED = frozenset({"UserPromptSubmit", "PostToolBatch", "PostToolUse", "PostToolUseFailure", "Stop"})


def unanswered(stored: Stored, hook: dict[str, Any], why: str) -> Answer:
    """Return the answer to a hook without a verdict."""
    session_id = str(hook.get("session_id"))
    stopped = stored.stopped(session_id)
    if hook.get("hook_event_name") == "PreToolUse" and (stopped is not None or _is_closed(hook)):
        answer = _refusal(session_id, stopped, NOBODY.message, why)
        return answer if stopped is not None else answer._replace(out=answer.out | not_decided(stored, session_id, why))
    if stopped is not None and hook.get("hook_event_name") in _HALTED:
        return Answer(halted(stopped.text_for(session_id)), why)
    if notice := not_decided(stored, session_id, why):
        return Answer(notice, why)  # with another exit code the output would be ignored
    is_call = hook.get("hook_event_name") == "PreToolUse"
    return Answer({}, why + ("\nhaltline: hook: no decision on this call; it runs" if is_call else ""), 1)


def refused_unjudged(hook: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a call without a verdict that would destroy something; empty: it may run."""
    return denied(str(NOBODY.refusal())) if _is_closed(hook) else {}


def not_decided(stored: Stored, session_id: str, why: str) -> dict[str, Any]:
    """Return a notice to the user that no verdicts are available, and why; empty after the first time."""
    first = stored.is_first_notice(session_id)
    return {"systemMessage": f"haltline: {_NO_DECISIONS} {why}"} if first else {}


def unread(stored: Stored, session_id: str, event: str, why: str) -> Answer:
    """Return the answer to an unreadable hook: a call is not made, as the worker does not see it."""
    if event in NOT_CALLS:
        return Answer({}, why, 1)  # there is no call to refuse; for a Stop, 2 would mean: continue
    stopped = stored.stopped(session_id)
    if not event and stopped is None:
        return Answer({}, f"{NOT_CHECKED} ({why})", 2)
    answer = _refusal(session_id, stopped, NOT_CHECKED, why)
    # With 2 the output is ignored, which would not end the whole turn of a killed session.
    return answer if stopped is not None else Answer(answer.out, f"{NOT_CHECKED} ({why})", 2)


def _refusal(session_id: str, stopped: Stop | None, otherwise: str, why: str) -> Answer:
    if stopped is None:
        return Answer(denied(otherwise), why)
    return Answer(stopped_answer(stopped.text_for(session_id)), why)


def _is_closed(hook: Mapping[str, Any]) -> bool:
    """Return whether a call is refused without a verdict. Raises ValueError if it is no valid call."""
    try:
        settings = GuardSettings.from_env(bootstrap="unused")
    except (ValueError, OSError):
        settings = GuardSettings(bootstrap="unused")
    return is_closed(str(hook.get("tool_name", "")), hook.get("tool_input"), settings.fail_closed_from)
