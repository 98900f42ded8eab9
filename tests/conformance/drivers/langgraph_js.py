"""See the program langgraph.mjs: without an event loop a langchain agent, with one a graph that streams."""

from tests.conformance.drivers._node import Node

ADAPTER = "typescript"
LACKS = frozenset({"subagents"})
SYNC, ASYNC = True, True
run = Node("langgraph").run
