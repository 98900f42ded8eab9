"""Tool calls in MCP messages: checked before the server receives them, and published at their end.

A refused call never reaches the server. Its answer is a result with `isError`, which is how MCP reports a failed tool
to a model. The annotations of `tools/list` are hints: `destructiveHint` can raise the effect known from the name, and
`readOnlyHint` never lowers it.
"""

import base64
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from haltline.interventions.agent.frame.session import Allowed, CallSession, Denied, ResultUnknown
from haltline.interventions.agent.producers.any_json import text_of_blocks, written
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.rules.known_effects import known_effect
from haltline.schemas import expressions as re
from haltline.schemas.events import Effect

Message = dict[str, Any]

_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
_PLAIN_HEADER = re.compile(r"[!-~]([ -~]*[!-~])?")
_MAX_TOOLS: Final = 10_000
_MAX_ID_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as listed by its server."""

    effect: Effect | None = None
    headers: Mapping[str, str] | None = None
    """HTTP headers that repeat arguments (`x-mcp-header`), by argument."""


class Tools:
    """The tools that one server has listed. Thread safe."""

    def __init__(self) -> None:
        self._tools: OrderedDict[str, Tool] = OrderedDict()

    def learn(self, result: Mapping[str, Any]) -> None:
        """Store the result of a `tools/list`."""
        tools = result.get("tools")
        for tool in tools if isinstance(tools, list) else []:
            if isinstance(tool, dict) and isinstance(name := tool.get("name"), str):
                effect, headers = effect_of(name, tool.get("annotations")), _headers_of(tool.get("inputSchema"))
                self._tools[name] = Tool(effect, headers)
                if len(self._tools) > _MAX_TOOLS:
                    self._tools.popitem(last=False)

    def of(self, name: str) -> Tool:
        """Return the listed tool; without fields if it was not listed."""
        return self._tools.get(name) or Tool()


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """The result of checking a call."""

    refusal: Message | None = None
    """The response to the client; None: the call goes to the server."""
    changed: Message | None = None
    """The message for the server instead."""
    headers: Mapping[str, str | None] | None = None
    """Headers that repeat changed arguments; None as a value: the header is removed."""


class Calls:
    """The calls of one connection, or of one request without connections. Thread safe.

    `ids` prefixes the ids of messages, where those of several clients could collide.
    """

    def __init__(self, session: CallSession, tools: Tools, *, prefix: str = "", ids: str = "mcp") -> None:
        self.session = session
        self._tools = tools
        self._prefix = prefix
        self._ids = ids
        self._lists: OrderedDict[str, None] = OrderedDict()
        self._waiting: dict[str, bool] = {}  # whether its client has cancelled it
        self._open: set[str] = set()
        self._lock = threading.Lock()

    def is_call(self, message: Any) -> bool:
        """Return whether a message from the client is a `tools/call`, to `ask` about; every other one passes.

        Of `tools/list` the result will be read. After `notifications/cancelled`, a call that still waits for its
        verdict, or for a person, is not made.
        """
        method = message.get("method") if isinstance(message, dict) else None
        with self._lock:
            if method == "tools/list":
                self._lists[self._key(message.get("id"))] = None
                if len(self._lists) > _MAX_TOOLS:
                    self._lists.popitem(last=False)
            elif method == "notifications/cancelled":
                key = self._key(_params_of(message).get("requestId"))
                if key in self._waiting:
                    self._waiting[key] = True
        return method == "tools/call"

    def ask(self, message: Message) -> CheckedCall:
        """Check a `tools/call`; waits according to the guard's mode."""
        key, name, args, effect = self._begun(message)
        try:
            return self._checked(message, key, self.session.before(key, name, args, effect=effect))
        except Refused as stopped:
            return self._checked(message, key, Denied.of(stopped))

    async def ask_async(self, message: Message) -> CheckedCall:
        """Like `ask`, without blocking the event loop."""
        key, name, args, effect = self._begun(message)
        try:
            return self._checked(message, key, await self.session.before_async(key, name, args, effect=effect))
        except Refused as stopped:
            return self._checked(message, key, Denied.of(stopped))
        finally:  # its task may be cancelled
            self._waiting.pop(key, None)

    def answered(self, message: Any) -> Message | None:
        """Handle a message from the server. Returns the message for the client instead; None: unchanged."""
        if not isinstance(message, dict) or "id" not in message or "method" in message:
            return None
        key = self._key(message["id"])
        with self._lock:
            listed = key in self._lists
            self._lists.pop(key, None)
            is_call = key in self._open
            self._open.discard(key)
        result = message.get("result")
        if listed and isinstance(result, dict):
            self._tools.learn(result)
            return None
        if not is_call:
            return None
        if not isinstance(result, dict):
            error = message.get("error")
            if not isinstance(error, dict):
                self.session.failed(key, "error")
                return None
            reason = str(error.get("message") or "error")
            hints = self.session.after(key, error=reason)
            return message | {"error": error | {"message": f"{reason}\n{hints}"}} if hints else None
        if result.get("resultType", "complete") != "complete":  # it requests more input, and is called again
            self.session.failed(key, ResultUnknown("the call goes on as another one"))
            return None
        failed = (texts_of(result) or "error") if result.get("isError") is True else None
        hints = self.session.after(key, text_of_blocks(result.get("content")), error=failed)
        if not hints:
            return None
        content = result.get("content")
        hint = {"type": "text", "text": hints}
        result = result | {"content": [*(content if isinstance(content, list) else []), hint]}
        return message | {"result": result}

    def abandon(self) -> None:
        """Give up the open calls: their results will not be reported."""
        with self._lock:
            left, self._open = self._open, set()
        for key in left:
            self.session.failed(key, ResultUnknown("its result was not reported"))

    def _checked(self, message: Message, key: str, verdict: Allowed | Denied) -> CheckedCall:
        with self._lock:
            is_taken_back = self._waiting.pop(key, False)
        if isinstance(verdict, Denied):
            return CheckedCall(refusal_of(message, verdict))
        if is_taken_back:
            self.session.failed(key, "not made: its client has taken it back")
            return CheckedCall(failed(message.get("id"), "not made: it was taken back"))
        with self._lock:
            self._open.add(key)
        if "id" not in message:  # a notification has no response, and so no end
            self.answered({"id": None, "result": {"resultType": "none"}})
        if not verdict.changed:
            return CheckedCall()
        new = verdict.args
        tool = self._tools.of(_call_of(message)[0])
        headers = {f"Mcp-Param-{h}": _header(new.get(a)) for a, h in (tool.headers or {}).items()}
        return CheckedCall(changed=message | {"params": _params_of(message) | {"arguments": new}}, headers=headers)

    def _begun(self, message: Message) -> tuple[str, str, dict[str, Any], Effect | None]:
        """Return the call's id, its name, its arguments, and its effect as far as the server states one."""
        name, args = _call_of(message)
        key = self._key(message.get("id"))
        with self._lock:
            self._waiting[key] = False
        return key, self._prefix + name, args, self._tools.of(name).effect

    def _key(self, message_id: Any) -> str:
        """Return the key of a message id; 1 and "1" are different ids."""
        return f"{self._ids}-{written(message_id).decode()}"[:_MAX_ID_CHARS]


def effect_of(name: str, annotations: object) -> Effect | None:
    """Return the effect of a tool by its annotations; None: no more than its name shows.

    Annotations come from the server, unverified, so they only raise the effect. `readOnlyHint` changes nothing, and
    `destructiveHint` counts only if it is set, as its default (true) would make nearly every tool destructive.
    """
    if not isinstance(annotations, dict) or annotations.get("readOnlyHint") is True:
        return None
    if annotations.get("destructiveHint") is True:
        return Effect.DESTRUCTIVE
    return max(Effect.WRITE, known_effect(name, None)) if annotations.get("destructiveHint") is False else None


def refusal_of(message: Message, denied: Denied) -> Message:
    """Return the result of a refused call, as of a failed tool."""
    result: Message = {"content": [{"type": "text", "text": denied.text}], "isError": True}
    meta = _params_of(message).get("_meta")
    if isinstance(meta, dict) and _VERSION in meta:  # since 2026-07-28 a result states its type
        result["resultType"] = "complete"
    return {"jsonrpc": "2.0", "id": message.get("id"), "result": result}


def unreadable(why: str) -> Message:
    """Return the response to invalid JSON."""
    return failed(None, f"expected a JSON-RPC message, got {why}", code=-32700)


def failed(message_id: Any, why: str, *, code: int = -32603) -> Message:
    """Return the error response to a message."""
    return {"jsonrpc": "2.0", "id": message_id, "error": {"code": code, "message": f"haltline: {why}"}}


def texts_of(result: Mapping[str, Any]) -> str:
    """Return the texts of a result."""
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    return "\n".join(b["text"] for b in blocks if isinstance(b, dict) and isinstance(b.get("text"), str))


def _call_of(message: Message) -> tuple[str, dict[str, Any]]:
    params = _params_of(message)
    args = params.get("arguments")
    return str(params.get("name") or "unknown"), args if isinstance(args, dict) else {}


def _params_of(message: Message) -> Message:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def _headers_of(schema: object) -> Mapping[str, str] | None:
    """Return the headers that repeat arguments, by argument; not for nested arguments, whose changes are refused."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    named = properties.items() if isinstance(properties, dict) else ()
    found = {
        name: property_schema.get("x-mcp-header")
        for name, property_schema in named
        if isinstance(property_schema, dict)
    }
    return {name: header for name, header in found.items() if isinstance(header, str) and header} or None


def _header(value: object) -> str | None:
    """Return a value as its header has it (SEP-2243): base64 if it is not plain text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        return None
    text = str(value)
    if _PLAIN_HEADER.fullmatch(text) and not text.startswith("=?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode(errors='replace')).decode()}?="
