"""See the program mastra.mjs: without an event loop it generates, with one it streams."""

from haltline.interventions.agent import Guard
from tests.conformance.drivers._node import Node
from tests.conformance.harness import Run, Script

ADAPTER = "typescript"
LACKS = frozenset({"subagents"})
SYNC, ASYNC = True, True

NODE = Node("mastra")


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    return NODE.run(guard, script, stream=is_async)
