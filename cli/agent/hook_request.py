"""The fast client of a hook, for a local service that already runs. It uses built-in modules only.

`hook_client.py` runs it at every tool call: finding packages, or loading `json` or `os`, takes longer than the whole
request. If no service answers, it runs `haltline hook`, which starts one.
"""

import posix
import sys
from _socket import AF_UNIX, SHUT_WR, SOCK_STREAM, socket
from zlib import crc32

TYPE_CHECKING = False  # of `typing`, which takes longer to load than all of this
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_BYTES = 64 * 1024 * 1024
ANSWER_S = 8.0
"""Timeout in seconds of each step; a service that waits for a verdict sends a space every five."""
CLAUDE_CODE = "claude-code"
ATTENDED = "attended"
"""Follows the agent's name if a person writes the prompts."""
INTERRUPTS = 130
"""The code of an answer that ends a program which no hook can end, as Ctrl-C does."""
_WITH_A_PERSON = ("cli", "claude-vscode", "claude-desktop")
"""How Claude Code was started, in CLAUDE_CODE_ENTRYPOINT."""
_ALONE = {"codex": ("exec", "e"), "gemini-cli": ("-p", "--prompt")}
"""Arguments with which an agent works without a person at the terminal."""
_SIGINT = 2
_MAX_FOLDER_BYTES = (104 if sys.platform == "darwin" else 108) - len("/agent-01234567.sock") - 1
"""A socket's path has a limit, with the zero that ends it."""
_OWN_FOLDER = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_NOFOLLOW | posix.O_CLOEXEC
OPTIONS = {
    "--bootstrap": "HALTLINE_BOOTSTRAP",
    "--prefix": "HALTLINE_PREFIX",
    "--agent-id": "HALTLINE_AGENT_ID",
    "--client-config": "HALTLINE_CLIENT_CONFIG",
}
"""The options of a guard, and their environment variables."""
Reply = tuple[int, bytes, bytes]
"""The exit code, standard output and standard error."""


def agent_of(arguments: "Sequence[str]") -> str:
    """The agent of the hook, from `--for`."""
    for at, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name == "--for":
            return value if equals else "".join(arguments[at + 1 : at + 2])
    return CLAUDE_CODE


def environment(arguments: "Sequence[str]") -> dict[str, str]:
    """The environment variables of the options. Raises ValueError: an option is unknown, or lacks its value."""
    variables: dict[str, str] = {}
    left = list(arguments)
    while left:
        name, equals, value = left.pop(0).partition("=")
        if name == "--local" and not equals:
            variables["HALTLINE_MODE"] = "local"
            continue
        if name not in OPTIONS and name != "--for":
            raise ValueError(f"expected one of {', '.join(('--for', '--local', *OPTIONS))}, got {name!r}")
        if not equals:
            if not left:
                raise ValueError(f"{name}: expected a value, got none")
            value = left.pop(0)
        if name != "--for":
            variables[OPTIONS[name]] = value
    return variables


def head_of(arguments: "Sequence[str]", environ: "Mapping[str, str]") -> str:
    """The first line of a request: the agent, and whether a person writes its prompts, as far as that shows."""
    agent = agent_of(arguments)
    is_attended = environ.get("CLAUDE_CODE_ENTRYPOINT") in _WITH_A_PERSON
    if agent != CLAUDE_CODE:
        is_attended = agent in _ALONE and _is_parent_alone(agent) is False and _has_terminal()
    return f"{agent} {ATTENDED}" if is_attended else agent


def _is_parent_alone(agent: str) -> bool | None:
    """Whether the process that runs this hook is the agent's, started without a person; None: it cannot be told."""
    try:
        with open(f"/proc/{posix.getppid()}/cmdline", "rb") as file:
            words = file.read().decode(errors="replace").split("\0")
    except OSError:
        return None
    if not any(agent.partition("-")[0] in word for word in words[:3]):
        return None
    return any(word.partition("=")[0] in _ALONE[agent] for word in words)


def _interrupt(why: bytes, agent: str) -> None:
    """Tell the user of an agent that works alone why it ends, and end it."""
    if _is_parent_alone(agent):
        try:
            with open(f"/proc/{posix.getppid()}/fd/2", "ab", buffering=0) as file:
                file.write(why)
        except OSError:
            pass
        posix.kill(posix.getppid(), _SIGINT)


def _has_terminal() -> bool:
    try:
        return posix.readlink(f"/proc/{posix.getppid()}/fd/0").startswith(("/dev/pts/", "/dev/tty"))
    except OSError:
        return False


def state_folder_of(environ: "Mapping[str, str]") -> str:
    """The folder of what outlives a service, in the user's home."""
    home = environ.get("XDG_STATE_HOME", "")
    home = home if home.startswith("/") else f"{environ.get('HOME', '')}/.local/state"
    return f"{home}/haltline/sessions"


def folders_of(environ: "Mapping[str, str]") -> list[str]:
    """The folders for the sockets of services. Shells of one user differ in the first, so nothing else is there."""
    runtime, uid = environ.get("XDG_RUNTIME_DIR", ""), posix.getuid()
    usual = [f"{runtime}/haltline"] if runtime.startswith("/") else []
    usual += [f"/run/user/{uid}/haltline", f"/tmp/haltline-{uid}"]
    named = environ.get("HALTLINE_RUN_DIR")
    return [*([named] if named else usual), f"{state_folder_of(environ).removesuffix('/sessions')}/run"]


def folder_of(environ: "Mapping[str, str]") -> str:
    """The first folder that is usable. Raises OSError: none is."""
    folders = folders_of(environ)
    for folder in folders:
        if len(folder.encode(errors="surrogateescape")) <= _MAX_FOLDER_BYTES and is_private(folder):
            return folder
    raise OSError(
        f"expected a folder that is this user's alone for the local service, got none of {', '.join(folders)}"
    )


def place(arguments: "Sequence[str]", environ: "Mapping[str, str]") -> str:
    """The path of the local service's socket. It differs by release, settings, settings file and home.

    All agents share one. Read before the settings of the file are added to the environment.
    """
    home = environ.get("XDG_CONFIG_HOME", "")
    home = home if home.startswith("/") else f"{environ.get('HOME', '')}/.config"
    file = environ.get("HALTLINE_CONFIG", f"{home}/haltline/haltline.toml")
    settings = {name: value for name, value in environ.items() if name.startswith("HALTLINE_")}
    try:
        settings.update(environment(arguments))
    except ValueError:  # the service says why
        settings["arguments"] = "\0".join(arguments)
    variables = sorted(f"{name}={value}" for name, value in settings.items())
    identity = "\0".join([*variables, state_folder_of(environ), _stamp(file), _stamp(__file__)])
    return f"{folder_of(environ)}/agent-{crc32(identity.encode(errors='surrogateescape')):08x}.sock"


def is_private(folder: str) -> bool:
    """Make a folder that only this user can enter, or make it one. False: it is another user's, or cannot be made."""
    try:
        found = posix.open(folder, _OWN_FOLDER)
    except FileNotFoundError:
        return _make(folder) and is_private(folder)
    except OSError:
        return False
    try:
        status = posix.fstat(found)
        if status.st_uid == posix.getuid() and status.st_mode & 0o077:
            posix.fchmod(found, 0o700)
    finally:
        posix.close(found)
    return status.st_uid == posix.getuid()


def _make(folder: str) -> bool:
    """Make a folder. True: it is there, by this process or by another one at the same time."""
    try:
        posix.mkdir(folder, 0o700)
    except FileExistsError:
        return True
    except OSError:
        return False
    return True


def request_reply(path: str, head: str, raw: bytes) -> Reply | None:
    """The service's answer; None: none runs, or it ended. Raises OSError on a timeout."""
    connection = socket(AF_UNIX, SOCK_STREAM)
    connection.settimeout(ANSWER_S)
    try:
        if posix.lstat(path).st_uid != posix.getuid():
            return None
        connection.connect(path)
        connection.sendall(head.encode() + b"\n" + raw)
        connection.shutdown(SHUT_WR)
        reply = b"".join(iter(lambda: connection.recv(65_536), b""))
    except (FileNotFoundError, ConnectionError):
        return None
    except (TimeoutError, BlockingIOError):
        raise OSError(f"the local service did not answer within {ANSWER_S:.0f} s") from None
    finally:
        connection.close()
    lengths, _, texts = reply.lstrip(b" ").partition(b"\n")
    numbers = lengths.split()
    if len(numbers) != 3 or len(texts) != int(numbers[1]) + int(numbers[2]):
        return None
    return int(numbers[0]), texts[: int(numbers[1])], texts[int(numbers[1]) :]


def put(reply: Reply) -> int:
    """Print a reply and return the exit code."""
    code, out, err = reply
    if code == INTERRUPTS:
        _interrupt(err, agent_of(sys.argv))
        code, err = 0, b""
    for text, file in ((out, sys.stdout), (err, sys.stderr)):
        if text:
            file.write(text.decode(errors="replace"))
    return code


def _stamp(path: str) -> str:
    """A stamp that changes with the file; empty: no file."""
    try:
        found = posix.stat(path)
    except OSError:
        return ""
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"


def main() -> int:
    """Pass the hook on standard input to the service, and print its answer. Returns the exit code."""
    arguments, raw = sys.argv[1:], sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        environ = {name.decode(errors="surrogateescape"): value.decode(errors="surrogateescape")
                   for name, value in posix.environ.items()}  # fmt: skip
        reply = request_reply(place(arguments, environ), head_of(arguments, environ), raw)
        if reply is not None:
            return put(reply)
    except (OSError, ValueError):
        pass  # `haltline hook` prints the reason
    import os
    import tempfile

    with tempfile.TemporaryFile() as kept:
        kept.write(raw)
        kept.seek(0)
        os.dup2(kept.fileno(), 0)
        return os.execv(sys.executable, [sys.executable, "-P", "-m", "haltline.cli", "hook", *arguments])
