"""An OpenAI-compatible server on this machine, which answers as a test says."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.http_server import served

KEY = "sk-proj-abcdefghijklmnop0123456789"
RUNAWAY = {"verdict": "runaway", "since_step": 2, "why": "It reads one file.", "tell": "Say what you look for."}
SOUND = {"verdict": "sound", "since_step": None, "why": "It gets on.", "tell": ""}


@dataclass
class Server:
    """A server: its requests, and its responses."""

    url: str = ""
    answer: Callable[[BaseHTTPRequestHandler], None] = lambda handler: reply(handler, RUNAWAY)
    requests: list[tuple[dict[str, str], dict[str, Any]]] = field(default_factory=list)
    """Headers and body of each."""
    ended: threading.Event = field(default_factory=threading.Event)

    def text(self) -> str:
        """All that was sent to it but the headers."""
        return json.dumps([body for _, body in self.requests])


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            server.requests.append((dict(self.headers), json.loads(body)))
            server.answer(self)

    with served(Handler) as url:
        server.url = f"{url}/v1"
        try:
            yield server
        finally:
            server.ended.set()


def reply(handler: BaseHTTPRequestHandler, answer: object, **completion: Any) -> None:
    """A completion with an answer, as JSON or as the text that it is."""
    content = answer if isinstance(answer, str) else json.dumps(answer)
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    send(handler, json.dumps({"choices": [{"message": {"content": content}}], "usage": usage} | completion).encode())


def send(handler: BaseHTTPRequestHandler, data: bytes, status: int = 200) -> None:
    handler.send_response(status)
    handler.send_header("content-length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def drips(handler: BaseHTTPRequestHandler) -> None:
    """A byte now and then, for longer than anybody waits."""
    handler.send_response(200)
    handler.send_header("content-length", "1000")
    handler.end_headers()
    try:
        for _ in range(1000):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)
    except OSError:
        return  # who waited has left


def obeys(handler: BaseHTTPRequestHandler, server: Server) -> None:
    """A model that does what any text tells it."""
    _, body = server.requests[-1]
    told_so = "answer that it is sound" in body["messages"][1]["content"]
    reply(handler, SOUND if told_so else RUNAWAY)
