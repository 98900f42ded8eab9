"""An MCP server behind a guard: each `tools/call` is proposed, waited for, and told of when its result comes.

The proxy speaks the stdio transport (one JSON-RPC message a line) and needs no SDK: everything but calls of tools goes
through byte for byte, in both directions. A refused call never reaches the server; its answer is a result with
`isError`, which is how MCP tells a model of a failed tool. The annotations of `tools/list` are hints: `destructiveHint`
can make a call worse than its name says, `readOnlyHint` makes nothing better than its name says.
"""

import contextlib
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, BinaryIO, Final

import orjson

from haltline.interventions.agent.effects import known_effect
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.desk import Answer, Desk
from haltline.schemas.events import Effect

Message = dict[str, Any]
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
_WAITING = 32
_GRACE_S = 5.0


class Proxy:
    """Between one client and one server. `run` once; the session of the guard is the connection."""

    def __init__(self, guard: Guard, *, prefix: str = "") -> None:
        self._desk = Desk(guard)
        self._prefix = prefix
        self._effects: dict[str, Effect | None] = {}
        self._lists: set[str] = set()
        self._hints: dict[str, str] = {}
        self._lock = threading.Lock()

    def run(self, command: Sequence[str], client_in: BinaryIO, client_out: BinaryIO) -> int:
        """Starts the server and goes on until either side ends. Returns the server's exit code.

        Raises OSError when the server cannot be started.
        """
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        server_in, server_out = server.stdin, server.stdout
        if server_in is None or server_out is None:  # never, with PIPE
            raise OSError("wanted pipes to the server, came none")
        to_server, to_client = _Lines(server_in), _Lines(client_out)
        back = threading.Thread(target=self._back, args=(server_out, to_client), name="haltline-mcp", daemon=True)
        back.start()
        # A call that waits for its verdict holds up no other message.
        with self._desk.guard, ThreadPoolExecutor(_WAITING, thread_name_prefix="haltline-mcp") as waiting:
            while line := client_in.readline(MAX_LINE_BYTES):
                message = _parsed(line)
                if isinstance(message, list):  # a batch, of the protocol's versions that have them
                    for one in message:
                        self._forward(one, orjson.dumps(one) + b"\n", waiting, to_server, to_client)
                else:
                    self._forward(message, line, waiting, to_server, to_client)
            waiting.shutdown()
            to_server.close()
            try:
                code = server.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                server.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(_GRACE_S)
                server.kill()
                code = server.wait()
            back.join(_GRACE_S)
            self._desk.abandon()
        return code

    def _forward(
        self, message: Any, line: bytes, waiting: ThreadPoolExecutor, to_server: "_Lines", to_client: "_Lines"
    ) -> None:
        method = message.get("method") if isinstance(message, dict) else None
        if method == "tools/list" and "id" in message:
            with self._lock:
                self._lists.add(_key(message["id"]))
        if method == "tools/call" and "id" in message:
            waiting.submit(self._call, message, line, to_server, to_client)
        else:
            to_server.write(line)

    def _call(self, message: Message, line: bytes, to_server: "_Lines", to_client: "_Lines") -> None:
        key = _key(message["id"])
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        name, args = str(params.get("name") or "unknown"), params.get("arguments")
        args = args if isinstance(args, dict) else {}
        answer = self._desk.propose(key, self._prefix + name, args, effect=self._effects.get(name))
        if answer.refused is not None:
            to_client.write(orjson.dumps(refusal_of(message["id"], answer)) + b"\n")
            return
        if answer.changes:
            line = orjson.dumps(message | {"params": params | {"arguments": answer.changes.of(args)}}) + b"\n"
        if answer.hints:
            with self._lock:
                self._hints[key] = answer.hints
        to_server.write(line)

    def _back(self, lines: IO[bytes], to_client: "_Lines") -> None:
        while line := lines.readline(MAX_LINE_BYTES):
            message = _parsed(line)
            if isinstance(message, dict) and "id" in message and "method" not in message:
                line = self._answered(message, line)
            to_client.write(line)

    def _answered(self, message: Message, line: bytes) -> bytes:
        key = _key(message["id"])
        with self._lock:
            listed = key in self._lists
            self._lists.discard(key)
            hints = self._hints.pop(key, "")
        result = message.get("result")
        if listed and isinstance(result, dict):
            self._learn(result)
            return line
        error = None
        if not isinstance(result, dict):
            error = str((message.get("error") or {}).get("message", "error"))
        elif result.get("isError") is True:
            error = texts_of(result) or "error"
        known = self._desk.complete(key, result.get("content") if isinstance(result, dict) else None, error=error)
        if not (known and hints and isinstance(result, dict)):
            return line
        content = result.get("content")
        hint = {"type": "text", "text": f"haltline: {hints}"}
        result = result | {"content": [*(content if isinstance(content, list) else []), hint]}
        return orjson.dumps(message | {"result": result}) + b"\n"

    def _learn(self, result: Mapping[str, Any]) -> None:
        tools = result.get("tools")
        for tool in tools if isinstance(tools, list) else []:
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                self._effects[tool["name"]] = effect_of(tool["name"], tool.get("annotations"))


class _Lines:
    """One line at a time, from several threads. Nobody at the other end is no error: the reader will hear of it."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._lock = threading.Lock()

    def write(self, line: bytes) -> None:
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._out.write(line if line.endswith(b"\n") else line + b"\n")
            self._out.flush()

    def close(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._out.close()


def effect_of(name: str, annotations: object) -> Effect | None:
    """What a tool's annotations say it does; None: no more than its name.

    They come from the server, which nobody has checked. So they only raise: `readOnlyHint` changes nothing, and
    `destructiveHint` must be said to count, for its default (true) would make nearly every tool a destructive one.
    """
    if not isinstance(annotations, dict) or annotations.get("readOnlyHint") is True:
        return None
    if annotations.get("destructiveHint") is True:
        return Effect.DESTRUCTIVE
    return max(Effect.WRITE, known_effect(name, None)) if annotations.get("destructiveHint") is False else None


def refusal_of(message_id: Any, answer: Answer) -> Message:
    """A refused call's result, as a tool that failed."""
    content = [{"type": "text", "text": str(answer.refused)}]
    return {"jsonrpc": "2.0", "id": message_id, "result": {"content": content, "isError": True}}


def texts_of(result: Mapping[str, Any]) -> str:
    """The texts of a result."""
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    return "\n".join(b["text"] for b in blocks if isinstance(b, dict) and isinstance(b.get("text"), str))


def _parsed(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:  # the server, or the client, will say what it thinks of it
        return None


def _key(message_id: Any) -> str:
    """1 and "1" are two ids."""
    return f"mcp-{orjson.dumps(message_id, default=str).decode()}"[:200]
