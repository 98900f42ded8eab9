"""`haltline hook`: what Claude Code runs at its hooks. Standard library only: it starts with every call of a tool.

It hands what it reads to the session's companion (`interventions/agent/integrations/claude_code/companion.py`), which
it starts when there is none, and prints the answer. When none can be had, calls follow the fail policy of the guard:
those that destroy, as far as their name tells, are refused, others go on; after a kill that is known, nothing does.
"""

import json
import os
import socket
import sys
import time
import zlib
from typing import Any

from haltline.cli import settings_file

_USAGE = """\
usage: haltline hook [--bootstrap HOST:PORT] [--prefix TEXT] [--agent-id NAME] [--client-config FILE]
       haltline hook install [--settings FILE] [--dry-run] [the options above]
       haltline hook uninstall [--settings FILE] [--dry-run]

Reads one hook of Claude Code (JSON) on standard input, tells haltline of it, and answers a PreToolUse with what the
worker says. `install` adds it to a settings file (.claude/settings.json), shows what changes, `uninstall` undoes it.
The options, and all other settings of a guard, can be set in the environment as well (HALTLINE_BOOTSTRAP ...), or in
the user's ~/.config/haltline/haltline.toml; a haltline.toml of the working directory is not read.
HALTLINE_HOOK_APPROVAL=ask puts what waits for an operator's approval to the user of the terminal; else it is refused.

Exit codes: 0 answered; 1 haltline could not be asked, and the call goes on; 2 the input cannot be read as a hook, so
the call is not made (Claude Code blocks it, and shows the message to the model). `install`: 2 set up wrongly.

Example: haltline hook install --bootstrap kafka-1:9092 --agent-id builder
"""
OPTIONS = {
    "--bootstrap": "HALTLINE_BOOTSTRAP",
    "--prefix": "HALTLINE_PREFIX",
    "--agent-id": "HALTLINE_AGENT_ID",
    "--client-config": "HALTLINE_CLIENT_CONFIG",
}
_NOT_CALLS = ("SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop", "SubagentStop",
              "SessionEnd", "Notification", "PreCompact")  # fmt: skip
"""Hooks that stand before no call."""
_MAX_BYTES = 64 * 1024 * 1024
_ANSWER_S = 20.0
_START_S = 15.0
_POLL_S = 0.01
_NOBODY = "Nobody could be asked whether this may be done, and it could do harm. Report it instead."
_UNREADABLE = "The call could not be read, so nobody could be asked whether it may be done. Write it another way."
_COMPANION = "haltline.interventions.agent.integrations.claude_code.companion"


class Unanswered(Exception):
    """The companion could not be asked: why."""


def main(arguments: list[str]) -> int:
    """Runs the command with what follows `hook`. Returns the exit code."""
    if arguments[:1] in (["install"], ["uninstall"]):
        from haltline.cli.agent import hook_settings

        return hook_settings.main(arguments)
    if "-h" in arguments or "--help" in arguments:
        print(_USAGE, end="")
        return 0
    raw = sys.stdin.buffer.read(_MAX_BYTES + 1)
    try:
        return _answered(arguments, raw)
    except Exception as error:  # with Python's own exit code 1 the call would go on
        return _block(f"{_UNREADABLE} ({error!r:.300})")


def _answered(arguments: list[str], raw: bytes) -> int:
    try:
        hook = json.loads(raw) if len(raw) <= _MAX_BYTES else None
    except (ValueError, RecursionError):
        hook = None
    event = hook.get("hook_event_name") if isinstance(hook, dict) else None
    session_id = hook.get("session_id") if isinstance(hook, dict) else None
    if not isinstance(hook, dict) or not isinstance(session_id, str) or not session_id:
        why = "expected a hook of Claude Code on standard input, a JSON object with session_id; got none"
        if event in _NOT_CALLS:
            return _fail(why, 1)  # there is no call to refuse; of a Stop, 2 would say: go on
        if b'"PreToolUse"' in raw:
            _deny(None, _UNREADABLE, why)
        return _block(f"{_UNREADABLE} ({why})")
    killed = _killed(session_id)
    try:
        os.environ.update(environment(arguments))
        settings_file.apply("hook")
        killed = _killed(session_id)  # of this broker's session
        answer = _request(_place(session_id), raw)
    except (Unanswered, OSError, ValueError) as error:
        return _unanswered(hook, killed, str(error))
    if answer.get("error"):
        return _unread(hook, _killed(session_id), str(answer["error"]))
    if answer.get("out"):
        print(json.dumps(answer["out"]))
    return 0


def environment(arguments: list[str]) -> dict[str, str]:
    """The variables that the options stand for.

    Raises:
        ValueError: an option that does not exist, or one without its value.

    """
    variables: dict[str, str] = {}
    left = list(arguments)
    while left:
        name, equals, value = left.pop(0).partition("=")
        if name not in OPTIONS:
            raise ValueError(f"expected one of {', '.join(OPTIONS)}, got {name!r}")
        if not equals:
            if not left:
                raise ValueError(f"{name}: expected a value, got none")
            value = left.pop(0)
        variables[OPTIONS[name]] = value
    return variables


def _place(session_id: str) -> str:
    """The socket of a session's companion, in a folder that belongs to this user alone."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    # By `os`, for pathlib alone takes 10 ms to load.
    folder = os.environ.get("HALTLINE_RUN_DIR") or (
        os.path.join(runtime, "haltline") if os.path.isdir(runtime) else f"/tmp/haltline-{os.getuid()}"
    )
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if found.st_uid != os.getuid() or found.st_mode & 0o077 or not os.path.isdir(folder):
        raise Unanswered(
            f"{folder}: expected a folder that is this user's alone (mode 700), got another; HALTLINE_RUN_DIR"
        )
    # Another broker, another prefix: another companion.
    identity = "\0".join(
        f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("HALTLINE_")
    )
    name = session_id if len(session_id) <= 40 and session_id.replace("-", "").isalnum() else _digest(session_id)
    return os.path.join(folder, f"{name}-{zlib.crc32(identity.encode()):08x}.sock")


def _digest(session_id: str) -> str:
    import hashlib

    return hashlib.blake2b(session_id.encode(errors="replace"), digest_size=16).hexdigest()


def _request(path: str, raw: bytes) -> dict[str, Any]:
    connection = _connect(path) or _started(path)
    with connection:
        connection.settimeout(_ANSWER_S + float(os.environ.get("HALTLINE_APPROVAL_WAIT_S", "0")))
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        reply = b"".join(iter(lambda: connection.recv(65_536), b""))
    try:
        answer = json.loads(reply)
    except ValueError:
        raise Unanswered("the companion ended before it answered") from None
    return answer if isinstance(answer, dict) else {}


def _connect(path: str) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    return connection


def _started(path: str) -> socket.socket:
    """A connection to a companion that is started now; of several that are started at once, one stays."""
    import subprocess

    log = path.removesuffix(".sock") + ".log"
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", _COMPANION, path],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,  # it outlives the hook, and a Ctrl-C at the terminal
        )
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        connection = _connect(path)
        if connection is not None:
            process.returncode = 0  # it goes on without us: no warning that it was left
            return connection
        if process.poll():
            with open(log, encoding="utf-8", errors="replace") as file:
                raise Unanswered(file.read()[-2000:].strip() or f"its companion ended with {process.returncode}")
        time.sleep(_POLL_S)
    raise Unanswered(f"its companion did not answer within {_START_S:.0f} s; see {log}")


def _killed(session_id: str) -> dict[str, str] | None:
    try:
        with open(_place(session_id).removesuffix(".sock") + ".killed", encoding="utf-8") as file:
            known = json.load(file)
            return {"code": str(known["code"]), "reason": str(known["reason"])}
    except (OSError, ValueError, KeyError, TypeError, Unanswered):
        return None


def _unanswered(hook: dict[str, Any], killed: dict[str, str] | None, why: str) -> int:
    if hook.get("hook_event_name") != "PreToolUse":
        return _fail(why, 1)
    if killed is None and not _closed(str(hook.get("tool_name", ""))):
        return _fail(f"{why}\nhaltline: hook: nobody was asked about this call; it goes on", 1)
    return _deny(killed, _NOBODY, why)


def _unread(hook: dict[str, Any], killed: dict[str, str] | None, why: str) -> int:
    """The companion cannot read the hook: the worker does not see the call, so it is not made."""
    if str(hook.get("hook_event_name")) in _NOT_CALLS:
        return _fail(why, 1)
    _deny(killed, _UNREADABLE, why)
    # With 2, what is printed is not read; and that is where the whole turn of a killed session is ended.
    return 0 if killed is not None else _block(_UNREADABLE)


def _deny(killed: dict[str, str] | None, otherwise: str, why: str) -> int:
    code, reason = ("no_verdict", otherwise) if killed is None else (killed["code"], killed["reason"])
    output = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": f"{code}: {reason}",
    }
    stop = {"continue": False, "stopReason": f"haltline: {code}: {reason}"} if killed is not None else {}
    print(json.dumps(stop | {"hookSpecificOutput": output}))
    print(f"haltline: hook: {why}", file=sys.stderr)
    return 0


def _closed(tool: str) -> bool:
    """Whether such a call is refused when nobody can be asked."""
    from haltline.interventions.agent.rules.known_effects import known_effect
    from haltline.interventions.agent.settings import GuardSettings

    try:
        closed_from = GuardSettings.from_env(bootstrap="unused").fail_closed_from
    except (ValueError, OSError):
        closed_from = GuardSettings(bootstrap="unused").fail_closed_from
    return closed_from is not None and known_effect(tool, None) >= closed_from


def _block(why: str) -> int:
    return _fail(why, 2)


def _fail(why: str, code: int) -> int:
    print(f"haltline: hook: {why}", file=sys.stderr)
    return code
