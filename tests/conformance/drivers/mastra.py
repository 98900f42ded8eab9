"""See the program mastra.mjs: without an event loop it generates, with one it streams."""

from tests.conformance.drivers._node import Node

ADAPTER = "typescript"
LACKS = frozenset({"subagents"})
SYNC, ASYNC = True, True
run = Node("mastra").run
