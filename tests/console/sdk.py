"""Agent Sentinel's own SDK against the API on a port: its classes keep their state in themselves."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from agent_sentinel.approval import ApprovalClient
from agent_sentinel.context import ExecutionContext
from agent_sentinel.cost import CostTracker
from agent_sentinel.kill_switch import KillSwitchClient
from agent_sentinel.ledger import Ledger
from agent_sentinel.policy import PolicyEngine
from fastapi.testclient import TestClient

from haltline.console.sdk_rules import ConsoleRules
from tests.console.serving import serving


@contextmanager
def on_a_port(app: Any) -> Iterator[str]:
    """The URL of an application that was started by somebody else."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="warning"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def ruled(bootstrap: str, folder: Path, rules: ConsoleRules) -> TestClient:
    """A console with rules; its client is an admin."""
    return serving(bootstrap, folder, answer_within_s=30, rules=rules)


@contextmanager
def fresh_sdk(folder: Path) -> Iterator[None]:
    """The SDK as at the start of a process, with its files in a folder."""

    def forget() -> None:
        PolicyEngine.reset()
        ApprovalClient.reset()
        KillSwitchClient.reset()
        Ledger.reset()  # type: ignore[no-untyped-call]  # of the SDK
        CostTracker.reset_all()

    forget()
    PolicyEngine.set_enforcement_mode("fail_open")
    Ledger._log_path, Ledger._initialized = folder / "ledger.jsonl", True
    with ExecutionContext():
        yield
    forget()
