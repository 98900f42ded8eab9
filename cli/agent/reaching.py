"""How front ends reach the local service of their settings: on its socket, after they have started one if none runs."""

import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from haltline.cli import settings_file
from haltline.cli.agent.hook_request import OPTIONS, folders_of, place, request_reply

if TYPE_CHECKING:
    from haltline.interventions.agent.service.client import Connection, OnOrder
    from haltline.interventions.agent.settings import GuardSettings

_SERVICE: Final = "haltline.cli.agent.service"
_START_S: Final = 15.0
_POLL_S: Final = 0.01
_PING: Final = "\0ping"
_OF_SESSION: Final = {
    f"HALTLINE_{name.upper()}": name
    for name in ("session_id", "agent_id", "parent_session_id", "root_session_id", "mission_id")
}
"""What `begin` says of a session, by its variable: sessions which differ in it share a service."""


class Unanswered(OSError):
    """The service gave no answer; the message is the reason."""


def options_of(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the service among a command's settings of a guard."""
    names = {"bootstrap": "--bootstrap", "topic_prefix": "--prefix"}
    return {option: given[name] for name, option in names.items() if name in given}


def session_in(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what the environment says of the session, as fields of `begin`."""
    return {name: value for variable, name in _OF_SESSION.items() if (value := environ.get(variable))}


def settings_of_sessions(environ: Mapping[str, str]) -> "GuardSettings":
    """Return the settings of a service's sessions, which wait for a person as a guard in process does.

    Raises ValueError for an invalid value or policy, and OSError if the file of client settings cannot be read.
    """
    from haltline.interventions.agent.settings import GuardSettings
    from haltline.interventions.agent.transport.transport_factory import with_policy_read

    own = {"HALTLINE_MODE": "blocking"} | dict(environ)
    own.pop("HALTLINE_SESSION_ID", None)  # of the process that starts the service
    return with_policy_read(GuardSettings.from_env(own))


def start(path: str, why: str, environ: Mapping[str, str]) -> None:
    """Start a service and wait until it answers; of several started at once, one stays. Raises Unanswered."""
    import subprocess

    log = beside(path, "log")
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", _SERVICE, path, *filter(None, [why])],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,  # it outlives its front end, and a Ctrl-C at the terminal
            env=dict(environ),
        )
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        if request_reply(path, _PING, b"") is not None:
            process.returncode = 0  # it keeps running: no warning about an unfinished process
            return
        if process.poll():
            with open(log, encoding="utf-8", errors="replace") as file:
                raise Unanswered(file.read()[-2000:].strip() or f"the local service ended with {process.returncode}")
        time.sleep(_POLL_S)
    raise Unanswered(f"the local service did not answer within {_START_S:.0f} s; see {log}")


def resume(path: str) -> None:
    """Continue a service that was suspended (SIGSTOP), whose lock is held then."""
    with contextlib.suppress(OSError, ValueError), open(beside(path, "lock"), encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.kill(int(lock.read(20)), signal.SIGCONT)


def beside(path: str, kind: str) -> str:
    """Return the path of another file of a socket's service."""
    return f"{path.removesuffix('.sock')}.{kind}"


def make_folders(environ: Mapping[str, str]) -> None:
    """Make what is above those folders of sockets that are this user's own: a named one, and that of the state."""
    for folder in filter(None, (environ.get("HALTLINE_RUN_DIR"), folders_of(environ)[-1])):
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)


class Reach:
    """Connects to the service of these options and this environment, as `haltline agent` and hooks have them."""

    def __init__(self, options: Mapping[str, str], environ: Mapping[str, str]) -> None:
        """`options`: by name (`--bootstrap` ...). Raises OSError if no folder can have a socket."""
        own = {name: value for name, value in environ.items() if name not in _OF_SESSION}
        self._environ = own | {OPTIONS[name]: value for name, value in options.items()}
        make_folders(self._environ)
        self._path = place([], self._environ)
        self._why = ""
        try:
            settings_file.apply("agent", self._environ)
        except ValueError as error:
            self._why = str(error)

    @property
    def environ(self) -> Mapping[str, str]:
        """The settings of the service, those of the settings file too."""
        return self._environ

    def __call__(self, on_order: "OnOrder") -> "Connection":
        """Connect. Raises OSError if no service answers."""
        from haltline.interventions.agent.service.client import Connection

        resume(self._path)
        with contextlib.suppress(OSError):
            return Connection(Path(self._path), on_order)
        start(self._path, self._why, self._environ)
        return Connection(Path(self._path), on_order)
