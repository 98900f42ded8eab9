"""A guard for an MCP server that is a child process: the stdio transport, one JSON-RPC message per line.

It needs no SDK: everything except calls of tools passes through unchanged, in both directions.
"""

import contextlib
import logging
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, BinaryIO, Final

from haltline.interventions.agent.integrations.mcp_calls import AnySession, Calls, Message, Tools, failed, unreadable
from haltline.interventions.agent.producers.any_json import parsed, written

log: Final = logging.getLogger("haltline.agent")

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
_WAITING = 32
_GRACE_S = 5.0


class Proxy:
    """A proxy between one client and one server. Call `run` once; the session is the connection."""

    def __init__(self, session: AnySession, *, prefix: str = "") -> None:
        self._session = session
        self._calls = Calls(session, Tools(), prefix=prefix)

    def run(self, command: Sequence[str], client_in: BinaryIO, client_out: BinaryIO) -> int:
        """Start the server and run until either side ends. Returns the server's exit code.

        Raises OSError if the server cannot be started.
        """
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        server_in, server_out = server.stdin, server.stdout
        if server_in is None or server_out is None:  # never, with PIPE
            raise OSError("expected pipes to the server, got none")
        to_server, to_client = _Lines(server_in), _Lines(client_out)
        back = threading.Thread(target=self._back, args=(server_out, to_client), name="haltline-mcp", daemon=True)
        back.start()
        # A call that waits for its verdict blocks no other message.
        self._session.begin()
        try:
            with ThreadPoolExecutor(_WAITING, thread_name_prefix="haltline-mcp") as waiting:
                while line := client_in.readline(MAX_LINE_BYTES):
                    self._take(line, waiting, to_server, to_client)
            to_server.close()
            code = _ended(server)
            back.join(_GRACE_S)
        finally:
            self._session.end()
        return code

    def _take(self, line: bytes, waiting: ThreadPoolExecutor, to_server: "_Lines", to_client: "_Lines") -> None:
        try:
            message = parsed(line)
        except ValueError as error:
            if line.lstrip()[:1] in {b"{", b"["}:  # a more lenient parser may find a call in it
                to_client.write(written(unreadable(str(error))))
            else:
                to_server.write(line)
            return
        # A batch, in protocol versions that have them; its calls and its other messages go on one by one.
        for one in message if isinstance(message, list) else [message]:
            written_one = written(one) if isinstance(message, list) else line
            if self._calls.is_call(one):
                waiting.submit(self._call, one, written_one, to_server, to_client)
            else:
                to_server.write(written_one)

    def _call(self, message: Message, line: bytes, to_server: "_Lines", to_client: "_Lines") -> None:
        try:
            checked = self._calls.ask(message)
        except Exception:  # a client without a response would wait forever
            log.exception("haltline: no verdict could be requested for a call")
            to_client.write(written(failed(message.get("id"), "no verdict could be requested for the call")))
            return
        if checked.refusal is None:
            to_server.write(line if checked.changed is None else written(checked.changed))
        elif "id" in message:
            to_client.write(written(checked.refusal))

    def _back(self, lines: IO[bytes], to_client: "_Lines") -> None:
        while line := lines.readline(MAX_LINE_BYTES):
            changed = None
            with contextlib.suppress(ValueError):  # the client handles its own invalid messages
                changed = self._calls.answered(parsed(line))
            to_client.write(line if changed is None else written(changed))


def _ended(server: "subprocess.Popen[bytes]") -> int:
    """Return the exit code of a server whose input has ended; it is ended if it goes on."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return server.wait(_GRACE_S)
    server.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(_GRACE_S)
    server.kill()
    return server.wait()


class _Lines:
    """Writes one line at a time, from several threads. A closed peer is no error: the reader notices it."""

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
