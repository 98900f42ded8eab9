"""LiteLLM's generic guardrail API: its proxy asks before each turn of a model, and about the model's tool calls.

The session is the one that the agent names to LiteLLM in a header, which becomes `litellm_trace_id`; the agent is the
key's alias, team or user. The format has limits: a single call cannot be removed from a response, nor its arguments
changed, so such a response is blocked as a whole. docs/gateways.md is the page for users.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson

from haltline.interventions.agent.call import NotMade
from haltline.interventions.agent.frame.session import Denied, FrameworkSession, with_hints
from haltline.interventions.agent.integrations.litellm_agent import MAX_ID_CHARS, agent_of
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.service.problems import Bad, read
from haltline.interventions.agent.service.sessions import Sessions
from haltline.schemas import expressions as re
from haltline.schemas.agent_service import Begin
from haltline.streams.intake.keys import OPEN, Key

MAX_CALLS: Final = 128
"""The most calls of one response."""
MAX_ARGUMENTS_CHARS: Final = 1024 * 1024
"""The size limit of one call's arguments as JSON."""
_MAX_REPLIES: Final = 4096
NO_SESSION: Final = (
    "no_session: expected the header x-litellm-session-id (or x-litellm-trace-id) in each request of an agent with "
    "tools, got none that LiteLLM takes as one. Without it, no two requests belong together."
)
OTHER_AGENT: Final = "other_agent"
OUT_OF_SCOPE: Final = "out_of_scope"
_EXPLICIT: Final = ("x-litellm-trace-id", "x-litellm-session-id")
_VENDORS: Final = re.compile(r"\Ax-(.+-)?session-id")
_CODEX: Final = frozenset({"session-id", "session_id", "thread-id", "conversation_id"})
_HIDDEN: Final = "[present]"


class LiteLLMGuardrail:
    """Answers LiteLLM's requests. For the event loop only."""

    def __init__(self, sessions: Sessions, agent_id: str, count: Callable[[Refused | None], None]) -> None:
        """`agent_id` is for requests without a key; `count` gets the result of each checked call."""
        self._sessions = sessions
        self._agent_id = agent_id
        self._count = count
        self._replies: OrderedDict[tuple[str, str], tuple[str, dict[str, Any]]] = OrderedDict()

    async def answer(self, fields: Mapping[str, Any], key: Key = OPEN) -> dict[str, Any]:
        """Return the action for a request or a response of a model. Raises Bad for what LiteLLM never sends.

        Everything that an agent can cause is answered with BLOCKED, never with an error, because LiteLLM can be
        configured to continue after an error.
        """
        kind = fields.get("input_type")
        if kind not in {"request", "response"}:
            raise Bad(400, f"input_type: expected request or response, got {kind!r:.80}")
        messages, calls = _objects(fields, "structured_messages"), _objects(fields, "tool_calls")
        texts = fields.get("texts") or []
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise Bad(400, "texts: expected a list of texts, got something else")

        of_key = fields.get("request_data")
        agent_id = agent_of(of_key if isinstance(of_key, dict) else {}, self._agent_id)
        session_id = session_of(fields)
        if session_id is None:
            if calls or fields.get("tools") or any(message.get("role") == "tool" for message in messages):
                return _blocked(NO_SESSION)
            session_id = f"{agent_id[: MAX_ID_CHARS - 16]}-without-session"  # kills of the agent apply to it as well
        if (outside := key.outside(agents=(agent_id,), sessions=(session_id,))) is not None:
            return _blocked(f"{OUT_OF_SCOPE}: {outside}")
        try:
            session = self._sessions.of(read(Begin, {"session_id": session_id, "agent_id": agent_id}), key)
            if session.guard.settings.agent_id != agent_id:  # otherwise a kill of the agent would not apply to it there
                return _blocked(
                    f"{OTHER_AGENT}: expected a session of {agent_id}, got {session_id}, one of another agent"
                )
            turn_id = str(fields.get("litellm_call_id") or "")
            if kind == "request":
                self._replies.pop((session_id, turn_id), None)  # an agent may use the same id for each of its turns
                return await self._turn(session, messages, texts)
            return await self._response(session, turn_id, calls)
        except Refused as refused:
            self._count(refused)
            return _blocked(str(refused))
        except Bad as bad:
            return _blocked("; ".join(bad.problems))

    async def _turn(
        self, session: FrameworkSession, messages: Sequence[Mapping[str, Any]], texts: Sequence[str]
    ) -> dict[str, Any]:
        """Handle the time before a turn: report the results of the previous turn's calls, and append hints to them."""
        changed = list(texts)
        for message in results_in(messages):
            content = text_in(message.get("content"))
            if hints := session.after(str(message.get("tool_call_id") or ""), content):
                _put_behind(changed, content, hints)
        await session.before_turn_async()
        self._count(None)
        return {"action": "NONE"} if changed == texts else {"action": "GUARDRAIL_INTERVENED", "texts": changed}

    async def _response(
        self, session: FrameworkSession, turn_id: str, calls: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Check a turn's calls. LiteLLM repeats the request for a stream; the calls are proposed once."""
        await session.before_turn_async()
        if not calls:
            return {"action": "NONE"}
        turn = (session.guard.session_id, turn_id)
        digest = hashlib.sha256(orjson.dumps(calls)).hexdigest()
        known, reply = self._replies.get(turn, ("", {}))
        if not turn_id or known != digest:
            reply = await self._propose(session, calls)
            self._replies[turn] = digest, reply
            if len(self._replies) > _MAX_REPLIES:
                self._replies.popitem(last=False)
        return reply

    async def _propose(self, session: FrameworkSession, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        if len(calls) > MAX_CALLS:
            raise Bad(400, f"tool_calls: expected at most {MAX_CALLS}, got {len(calls)}")
        described = [described_call(call) for call in calls]  # all of them before the first is proposed
        allowed: list[str] = []
        try:
            for call_id, name, arguments in described:
                verdict = await session.before_async(call_id, name, arguments)
                if isinstance(verdict, Denied):
                    self._count(verdict.refused)
                    self._not_made(session, allowed)
                    return _blocked(verdict.text)
                self._count(None)
                allowed.append(verdict.call_id)
        except BaseException:  # stopped, or the proxy disconnected: LiteLLM passes none of them to the agent
            self._not_made(session, allowed)
            raise
        return {"action": "NONE"}

    @staticmethod
    def _not_made(session: FrameworkSession, call_ids: Sequence[str]) -> None:
        for call_id in call_ids:
            session.failed(call_id, NotMade("another call of the same response was refused"))


def session_of(fields: Mapping[str, Any]) -> str | None:
    """Return the session named by the agent; None: `litellm_trace_id` is an id that LiteLLM made for this request.

    LiteLLM takes it from x-litellm-trace-id, x-litellm-session-id, x-VENDOR-session-id (such as Claude Code's), Codex's
    session-id and x-session-id, in this order, and reports only the presence of all but the first two.
    """
    trace_id, given = fields.get("litellm_trace_id"), fields.get("request_headers")
    if not isinstance(trace_id, str) or not trace_id or not isinstance(given, dict):
        return None
    headers = {str(name).lower(): value for name, value in given.items()}
    for name in _EXPLICIT:
        if headers.get(name):
            return trace_id if headers[name] == trace_id else None
    codex = "codex" in str(headers.get("user-agent", "")).lower()
    named = [name for name in headers if _VENDORS.fullmatch(name) or (codex and name in _CODEX)]
    return trace_id if any(headers[name] in {_HIDDEN, trace_id} for name in named) else None


def results_in(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the results of the last turn's calls, which follow it. Earlier ones have already been reported."""
    last = max((number for number, message in enumerate(messages) if message.get("role") == "assistant"), default=-1)
    return [message for message in messages[last + 1 :] if message.get("role") == "tool"]


def text_in(content: Any) -> str:
    """Return the text of a message, also of one in parts."""
    if isinstance(content, list):
        return "\n".join(str(part["text"]) for part in content if isinstance(part, dict) and part.get("text"))
    return content if isinstance(content, str) else ""


def described_call(call: Mapping[str, Any]) -> tuple[str, str, Any]:
    """Return the id of a call, its tool and its arguments as written by the model. Raises Bad for oversized ones."""
    function = call.get("function") or call.get("custom")
    described = function if isinstance(function, dict) else {}
    name, arguments = described.get("name"), described.get("arguments", described.get("input"))
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    if len(text) > MAX_ARGUMENTS_CHARS:
        raise Bad(400, f"arguments: expected at most {MAX_ARGUMENTS_CHARS} characters of a call, got {len(text)}")
    return str(call.get("id") or ""), name if isinstance(name, str) else "", arguments


def _objects(fields: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    listed = fields.get(name) or []
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise Bad(400, f"{name}: expected a list of objects, got something else")
    return listed


def _put_behind(texts: list[str], content: str, hints: str) -> None:
    """Append hints to the result's text, or if that is missing (a message in parts), to the last one."""
    own = next((number for number in reversed(range(len(texts))) if texts[number] == content), len(texts) - 1)
    if own >= 0:
        texts[own] = with_hints(texts[own], hints)


def _blocked(reason: str) -> dict[str, Any]:
    return {"action": "BLOCKED", "blocked_reason": reason}
