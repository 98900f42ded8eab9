"""See the program openai-agents.mjs: without an event loop it runs, with one it streams."""

from tests.conformance.drivers._node import Node

ADAPTER = "typescript"
# The SDK gives the model one text for every error of a tool, and shows no other.
LACKS = frozenset({"error_texts", "subagents"})
SYNC, ASYNC = True, True
run = Node("openai-agents").run
