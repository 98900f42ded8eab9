"""See the program vercel.mjs: without an event loop it generates, with one it streams."""

from tests.conformance.drivers._node import Node

ADAPTER = "typescript"
LACKS = frozenset({"subagents"})
SYNC, ASYNC = True, True
run = Node("vercel").run
