"""LiteLLM's real proxy with docs/gateways.md's configuration, an intake, and a scripted model behind it."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final, Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from haltline.streams.local.kafka import free_port
from tests.conformance.environments import python_of
from tests.docs.pages import DOCS, fences
from tests.http_server import served
from tests.waiting import wait_until

PAGE: Final = DOCS / "gateways.md"
KEY: Final = "sk-7f3c1e9ab24d48d6a0f15be2c7d9"
TOOLS: Final = [{"type": "function", "function": {"name": "delete_asset", "parameters": {"type": "object"}}}]
USED: Final = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
START_S: Final = 240.0  # the proxy imports for 15 s, on a machine that does nothing else


def block(language: str, beginning: str = "") -> str:
    """The first block of the page in this language that begins so."""
    return next(text for found, text in fences(PAGE) if found == language and text.startswith(beginning))


def command(program: str) -> list[str]:
    """The page's command line of a program, without the program."""
    (line, *_) = re.findall(rf"(?m)^{program} (.*)$", "\n".join(text for _, text in fences(PAGE)))
    return str(line).split()


class Model:
    """An OpenAI-compatible server whose model deletes the same asset in every turn, if it has tools."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                model.requests.append(asked)
                body = model.answer(asked, len(model.requests)).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._serving = ExitStack()
        self.url = f"{self._serving.enter_context(served(Handler))}/v1"

    def asked_with(self, text: str) -> int:
        """How many requests have this text in them."""
        return sum(text in json.dumps(request) for request in self.requests)

    @staticmethod
    def answer(asked: dict[str, Any], number: int) -> str:
        function = {"name": "delete_asset", "arguments": '{"asset_id": "fact_sales"}'}
        calls = [{"id": f"call_{number}", "type": "function", "function": function}] if asked.get("tools") else []
        base = {"id": f"chat-{number}", "created": 1, "model": "gpt-4o"}
        used = USED | {"prompt_tokens_details": {"cached_tokens": 40}}
        message = {"role": "assistant", "content": None if calls else "done", "tool_calls": calls or None}
        choices = [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}]
        return json.dumps(base | {"object": "chat.completion", "choices": choices, "usage": used})

    def close(self) -> None:
        self._serving.close()


class Gateway:
    """The three of them, with the page's configuration and command lines but for ports, tokens and the broker."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.folder = folder
        self.bootstrap = bootstrap
        self.model = Model()
        self.intake_port, self.proxy_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.proxy_port}"
        (folder / "intake-token").write_text("secret\n", encoding="utf-8")
        config = block("yaml").replace("127.0.0.1:8765", f"127.0.0.1:{self.intake_port}")
        (folder / "litellm.yaml").write_text(config, encoding="utf-8")
        # As long as a machine under load needs; the page's own are for people who wait.
        budgets = {f"HALTLINE_{name}_S": "20" for name in ("BUDGET", "FIRST_BUDGET", "START_BUDGET")}
        self.environ = os.environ | budgets | {"HALTLINE_BOOTSTRAP": bootstrap, "HALTLINE_INTAKE_TOKEN": "secret"}
        self.environ |= {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": self.model.url, "LITELLM_MASTER_KEY": KEY}
        self.environ |= {"PROXY": self.url, "HOME": str(folder), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        self.intake: subprocess.Popen[bytes] | None = None
        self.log = (folder / "proxy.log").open("wb")

    def __enter__(self) -> Self:
        self.start_intake()
        litellm = python_of("litellm").with_name("litellm")
        words = [*self._adapted(command("litellm")), "--host", "127.0.0.1"]
        self._proxy = subprocess.Popen(
            [str(litellm), *words], cwd=self.folder, env=self.environ, stdout=self.log, stderr=self.log
        )
        wait_until(lambda: self._ready(self._proxy, f"{self.url}/health/liveliness"), "the proxy", deadline_s=START_S)
        return self

    def start_intake(self) -> None:
        words = [sys.executable, "-m", "haltline.cli", *self._adapted(command("haltline"))]
        intake = subprocess.Popen(words, cwd=self.folder, env=self.environ, stdout=self.log, stderr=self.log)
        self.intake = intake
        address = f"http://127.0.0.1:{self.intake_port}/healthz"
        wait_until(lambda: self._ready(intake, address), "the intake answers", deadline_s=60)

    def stop_intake(self) -> None:
        assert self.intake is not None
        self.intake.send_signal(signal.SIGTERM)
        self.intake.wait(30)

    def ask(self, session_id: str, **body: Any) -> tuple[int, str]:
        """The status and the text of an answer."""
        asked = {"model": "gpt-4o", "messages": [{"role": "user", "content": session_id}], **body}
        headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
        headers["x-litellm-session-id"] = session_id
        try:
            with urlopen(
                Request(f"{self.url}/v1/chat/completions", json.dumps(asked).encode(), headers), timeout=120
            ) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def _adapted(self, words: list[str]) -> list[str]:
        mine = {"kafka-1:9092": self.bootstrap, "8765": str(self.intake_port), "4000": str(self.proxy_port)}
        return [mine.get(word, word) for word in words]

    def _ready(self, process: "subprocess.Popen[bytes]", address: str) -> bool:
        printed = (self.folder / "proxy.log").read_text(encoding="utf-8", errors="replace")
        assert process.poll() is None, printed[-4000:]
        try:
            with urlopen(address, timeout=10):
                return True
        except OSError:  # not yet
            return False

    def __exit__(self, *failure: object) -> None:
        self._proxy.terminate()
        try:
            self._proxy.wait(30)
        except subprocess.TimeoutExpired:
            self._proxy.kill()
            self._proxy.wait()
        self.stop_intake()
        self.model.close()
        self.log.close()
