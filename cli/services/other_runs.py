"""Several `haltline up` on one machine: a data folder and a port are one run's, and another one says whose."""

import hashlib
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from haltline.cli import settings_file

try:
    import fcntl
except ImportError:  # no POSIX: a data folder is not held, and other runs are not known
    fcntl = None  # type: ignore[assignment]

_LOCK: Final = "up.lock"
_FILE: Final = "up.toml"
_PLACES: Final = {
    "broker": "HALTLINE_BOOTSTRAP", "console": "HALTLINE_DOCTOR_CONSOLE", "worker": "HALTLINE_DOCTOR_WORKER",
    "sink": "HALTLINE_DOCTOR_SINK",
}  # fmt: skip
_TRIES: Final = 5
_AGAIN_S: Final = 0.1
"""Another command that asks whether this run goes on holds its lock for a moment."""


class InUse(RuntimeError):
    """The data folder, or a port, is another run's. The message says where that one is."""


@contextmanager
def claimed(data: Path) -> Iterator[list[str]]:
    """Holds the data folder of one run; yields where this user's other runs are. Raises InUse and OSError."""
    data = data.absolute()
    data.mkdir(parents=True, exist_ok=True)
    with (data / _LOCK).open("ab") as lock:
        for left in reversed(range(_TRIES)):
            if _held(lock):
                break
            if not left:
                raise InUse(
                    f"--data: expected a folder that no other `haltline up` uses, got {data}. The one that runs there: "
                    f"{_places(data)}. To start another beside it: haltline up --data DIR"
                )
            time.sleep(_AGAIN_S)
        listed = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "haltline" / "up"
        others = [f"{other}: {_places(other)}" for other in _running(listed, data)]
        entry = listed / hashlib.sha256(os.fsencode(data)).hexdigest()[:16]
        with suppress(OSError):  # a home that cannot be written: others do not know of this run
            listed.mkdir(parents=True, exist_ok=True)
            entry.write_text(str(data), encoding="utf-8")
        try:
            yield others
        finally:
            with suppress(OSError):
                entry.unlink(missing_ok=True)


def port_of(option: str, port: int, *, is_given: bool) -> int:
    """The port; 0 (a free one) if a default port is in use. Raises InUse for a port that was given."""
    if port == 0:
        return 0
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        if is_given:
            raise InUse(
                f"{option}: expected port {port} of 127.0.0.1 free, got one in use; 0 takes a free one"
            ) from None
        return 0
    return port


def _running(listed: Path, own: Path) -> Iterator[Path]:
    """The data folders of the runs that go on, of those that were ever listed."""
    for entry in sorted(listed.glob("*")) if fcntl is not None else ():
        with suppress(OSError, UnicodeDecodeError):
            folder = Path(entry.read_text(encoding="utf-8"))
            if folder == own:
                continue
            try:
                with (folder / _LOCK).open("rb") as lock:
                    is_over = _held(lock)
            except FileNotFoundError:
                is_over = True
            if is_over:
                entry.unlink(missing_ok=True)
            else:
                yield folder


def _places(data: Path) -> str:
    """What people need to reach the run of a data folder."""
    found = {}
    with suppress(settings_file.BadSettings):
        found = settings_file.read(str(data / _FILE))
    named = [f"{what} {found[variable].value}" for what, variable in _PLACES.items() if variable in found]
    # After its end, and until everything serves, only the audit table of the run before is in the file.
    return ", ".join(named) or "it is still starting"


def _held(lock: IO[bytes]) -> bool:
    if fcntl is not None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True
