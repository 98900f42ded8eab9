"""Cases for both of haltline's MCP proxies: the calls of a client, and messages of any shape."""

from typing import Any

import orjson
from hypothesis import strategies as st

from haltline.interventions.agent.testing import decision
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent

LEAF = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(("tools/call", "tools/list", "rm", "2.0", ""))
NAMES = st.sampled_from(
    ("jsonrpc", "id", "method", "params", "name", "arguments", "_meta", "result", "error", "content")
)
VALUES = st.recursive(LEAF, lambda v: st.lists(v, max_size=3) | st.dictionaries(NAMES, v, max_size=4), max_leaves=10)
MESSAGES = VALUES.map(orjson.dumps)

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rm", "arguments": {}}}
_WRITTEN = orjson.dumps(CALL)
CALLS = {
    "a call": _WRITTEN,
    "a batch of calls": orjson.dumps([CALL, CALL | {"id": 2}]),
    "a number that only some read": _WRITTEN.replace(b"{}", b'{"x":NaN}'),
    "half a pair of surrogates": _WRITTEN.replace(b"{}", b'{"x":"\\ud800"}'),
    "an escaped name": _WRITTEN.replace(b"tools", b"\\u0074ools"),
    "two methods": _WRITTEN.replace(b'{"jsonrpc"', b'{"method":"ping","jsonrpc"'),
    "a call without an id": orjson.dumps({name: value for name, value in CALL.items() if name != "id"}),
    "nested without end": _WRITTEN.replace(b"{}", b"[" * 9999 + b"]" * 9999),
    "cut off": _WRITTEN[:-2],
    "no parameters": orjson.dumps(CALL | {"params": None}),
    "parameters of another shape": orjson.dumps(CALL | {"params": {"name": 7, "arguments": "text"}}),
}
"""Calls of tools, as some reader would take them; one that is refused never reaches the server."""


def say(event: ActionEvent) -> Decision | Level:
    if event.action == "mcp__files__tidy":
        return decision(Level.BLOCK, event, code="destructive_volume", message="Not that.")
    if event.args == {"path": "other"}:
        return decision(Level.NUDGE, event, arguments={"path": "älter"})
    return Level.ALLOW


def heard(result: Any) -> tuple[bool, list[str]]:
    """Return whether a result is an error, and its texts."""
    return bool(result.is_error), [block.text for block in result.content if block.type == "text"]
