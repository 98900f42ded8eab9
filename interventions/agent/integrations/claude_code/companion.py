"""Holds the guards of one session of Claude Code for its hooks: each hook is a new process, and a guard takes a second.

A hook connects to the companion's socket, sends its input, and prints the reply. The companion is
started by the first hook (`cli/agent/hook.py`), holds a lock while it lives, and ends with the session, or when no
hook has come for half an hour. When it is killed, the next hook starts another, which reads from the `control` topic
what stands; what it last knew is in a file beside the socket, for a hook that reaches neither companion nor broker.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import orjson

from haltline.interventions.agent.integrations.any_json import parsed, written
from haltline.interventions.agent.integrations.claude_code.hooks import OnApproval, Sessions, stopped_answer
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.transport.transport_factory import with_policy_read

log: Final = logging.getLogger("haltline.hook")

IDLE_S: Final = 1800.0
_MAX_BYTES = 64 * 1024 * 1024


class Companion:
    """Answers hooks on a socket until the session ends."""

    def __init__(self, sessions: Sessions, socket: Path, *, idle_s: float = IDLE_S) -> None:
        self._sessions = sessions
        self._socket = socket
        self._kill_marker = socket.with_suffix(".killed")
        self._idle_s = idle_s
        self._ended = asyncio.Event()
        self._used = asyncio.Event()
        self._busy = 0

    async def serve(self) -> None:
        """Until the session's end. Raises OSError when the socket cannot be had."""
        self._socket.unlink(missing_ok=True)  # of one that was killed: the lock says that none lives
        server = await asyncio.start_unix_server(self._take, self._socket, limit=_MAX_BYTES)
        try:
            await self._until_ended()
        finally:
            self._socket.unlink(missing_ok=True)
            server.close()
            await self._sessions.close()

    async def _until_ended(self) -> None:
        ended = asyncio.ensure_future(self._ended.wait())
        while not ended.done():
            self._used.clear()
            used = asyncio.ensure_future(self._used.wait())
            done, _ = await asyncio.wait({ended, used}, timeout=self._idle_s, return_when=asyncio.FIRST_COMPLETED)
            used.cancel()
            if not done and not self._busy:
                break
        ended.cancel()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._busy += 1
        self._used.set()
        ends = False
        try:
            answer, ends = await self._answer(await _read_request(reader))
            writer.write(written(answer))
            await writer.drain()
        except ConnectionError:
            pass  # the hook was ended by its timeout: it hears no answer
        finally:
            self._busy -= 1
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        if ends:
            self._ended.set()

    async def _answer(self, request: bytes) -> tuple[dict[str, Any], bool]:
        """What the hook prints, or an error; and whether the session ends with it."""
        try:
            hook = _object(parsed(request))
            out = await self._sessions.answer(hook)
        except ValueError as error:  # also what is no JSON
            return {"error": str(error)}, False
        stopped = self._stopped()
        if stopped is not None and hook.get("hook_event_name") == "PreToolUse":
            out = stopped_answer(stopped)
        return {"out": out}, hook.get("hook_event_name") == "SessionEnd"

    def _stopped(self) -> Refused | None:
        """Why the session was stopped: as is known now or, as long as nothing is known, as it was last."""
        stopped = self._sessions.stopped
        if stopped is not None:
            self._kill_marker.write_bytes(orjson.dumps({"code": stopped.code, "reason": stopped.reason}))
        elif self._sessions.ready:
            self._kill_marker.unlink(missing_ok=True)
        elif self._kill_marker.exists():
            known = orjson.loads(self._kill_marker.read_bytes())
            return Refused(str(known["code"]), str(known["reason"]))
        return stopped


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    """What a hook says; of more than any does, so much that it cannot be read."""
    received = bytearray()
    while len(received) <= _MAX_BYTES and (part := await reader.read(65_536)):
        received += part
    return bytes(received)


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"hook: expected a JSON object, got {type(value).__name__}")
    return value


def main() -> int:
    """Runs as the companion of the socket that is named. 0: there is one already; 2: settings that cannot work."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    socket = Path(sys.argv[1])
    with socket.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        try:
            settings, on_approval = settings_of(os.environ)
        except (ValueError, OSError) as error:
            print(error, file=sys.stderr)
            return 2
        asyncio.run(_serve(Sessions(settings, on_approval=on_approval), socket))
    return 0


def settings_of(environ: Mapping[str, str]) -> tuple[GuardSettings, OnApproval]:
    """The settings of the guards: a hook waits for its verdict, and by default not for a person.

    Raises ValueError for a value that cannot work, and OSError when the file of client settings cannot be read.
    """
    defaults = {"HALTLINE_MODE": "blocking", "HALTLINE_APPROVAL_WAIT_S": "0"}
    approval = environ.get("HALTLINE_HOOK_APPROVAL", "deny")
    if approval not in {"deny", "ask"}:
        raise ValueError(f"HALTLINE_HOOK_APPROVAL: expected deny or ask, got {approval!r}")
    # The session is the hook's; one that is named in the environment is the one that started it.
    named = {name: value for name, value in environ.items() if name != "HALTLINE_SESSION_ID"}
    above = environ.get("HALTLINE_PARENT_SESSION_ID") or environ.get("HALTLINE_SESSION_ID")
    settings = GuardSettings.from_env(defaults | named, parent_session_id=above)
    return with_policy_read(settings), cast("OnApproval", approval)


async def _serve(sessions: Sessions, socket: Path) -> None:
    await Companion(sessions, socket, idle_s=float(os.environ.get("HALTLINE_HOOK_IDLE_S", IDLE_S))).serve()


if __name__ == "__main__":
    sys.exit(main())
