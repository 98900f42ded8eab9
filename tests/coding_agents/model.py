"""A model that calls one tool again and again, whatever it is answered, over the APIs that coding agents use."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Event = tuple[str, Any]
_USAGE = {"input_tokens": 100, "output_tokens": 10}


class Model:
    """Each turn calls `tool` with the arguments for its number; after `calls` of them, it says that it is done."""

    def __init__(self, tool: str, arguments: Callable[[int], dict[str, Any]], calls: int) -> None:
        self.tool = tool
        self.arguments = arguments
        self.calls = calls
        self.turns: list[dict[str, Any]] = []
        """The requests that offer the tool: others ask for a title, or whether the key is valid."""
        self.url = ""

    @contextmanager
    def serving(self) -> Iterator["Model"]:
        """Serves on a port of this machine, which `url` names."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Of", (_Handler,), {"model": self}))
        server.daemon_threads = True
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            server.shutdown()
            serving.join()
            server.server_close()

    def next_call(self, request: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """The id and the arguments of the next call; None: a text."""
        if self.tool not in json.dumps(request.get("tools") or ""):
            return None
        self.turns.append(request)
        number = len(self.turns)
        return (f"call_{number}", self.arguments(number)) if number <= self.calls else None


class _Handler(BaseHTTPRequestHandler):
    model: Model
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send("application/json", b"{}")

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        path = self.path.partition("?")[0]
        answer = next((answer for name, answer in _APIS.items() if path.endswith(name)), None)
        if answer is None:
            self._send("application/json", b"{}")
            return
        lines = [
            (f"event: {kind}\n" if kind else "") + f"data: {json.dumps(data)}\n\n"
            for kind, data in answer(self.model, self.model.next_call(request))
        ]
        self._send("text/event-stream", "".join(lines).encode())

    def _send(self, content_type: str, content: bytes) -> None:
        try:
            self.send_response(200)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except ConnectionError:
            pass  # the agent has ended

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


def _messages(model: Model, call: tuple[str, dict[str, Any]] | None) -> Iterator[Event]:
    """Anthropic's."""
    head = {"id": f"msg_{len(model.turns)}", "type": "message", "role": "assistant", "model": "m", "content": []}
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta: dict[str, Any] = {"type": "text_delta", "text": "Done."}
    if call is not None:
        block = {"type": "tool_use", "id": call[0], "name": model.tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    stop = {"stop_reason": "end_turn" if call is None else "tool_use", "stop_sequence": None}
    for event in (
        {"type": "message_start", "message": head | {"stop_reason": None, "stop_sequence": None, "usage": _USAGE}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 10}},
        {"type": "message_stop"},
    ):
        yield str(event["type"]), event


def _responses(model: Model, call: tuple[str, dict[str, Any]] | None) -> Iterator[Event]:
    """OpenAI's."""
    response: dict[str, Any] = {"id": f"resp_{len(model.turns)}", "status": "in_progress", "output": []}
    text = {"type": "output_text", "text": "Done.", "annotations": []}
    item: dict[str, Any] = {"type": "message", "id": "msg", "role": "assistant", "content": [text]}
    if call is not None:
        item = {"type": "function_call", "id": f"fc_{call[0]}", "call_id": call[0]}
        item |= {"name": model.tool, "arguments": json.dumps(call[1])}
    item["status"] = "completed"
    usage = _USAGE | {"total_tokens": 110, "input_tokens_details": None, "output_tokens_details": None}
    done = response | {"status": "completed", "output": [item], "usage": usage}
    for event in (
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    ):
        yield str(event["type"]), event


def _generate(model: Model, call: tuple[str, dict[str, Any]] | None) -> Iterator[Event]:
    """Gemini's."""
    part: dict[str, Any] = {"text": "Done."}
    if call is not None:
        part = {"functionCall": {"id": call[0], "name": model.tool, "args": call[1]}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
    yield "", {"candidates": [candidate], "usageMetadata": usage}


_APIS: dict[str, Callable[[Model, tuple[str, dict[str, Any]] | None], Iterator[Event]]] = {
    "/messages": _messages,
    "/responses": _responses,
    ":streamGenerateContent": _generate,
}
