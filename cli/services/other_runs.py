"""Several runs of `haltline up` on one machine. Each owns its data folder and ports; errors name the owner."""

import hashlib
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from haltline.cli import settings_file
from haltline.streams.private_files import make_folder

try:
    import fcntl
except ImportError:  # not POSIX: the data folder is not locked, and other runs are not known
    fcntl = None  # type: ignore[assignment]

_LOCK: Final = "up.lock"
_FILE: Final = "up.toml"
_PLACES: Final = {
    "broker": "HALTLINE_BOOTSTRAP", "console": "HALTLINE_DOCTOR_CONSOLE", "worker": "HALTLINE_DOCTOR_WORKER",
    "sink": "HALTLINE_DOCTOR_SINK",
}  # fmt: skip
_TRIES: Final = 5
_AGAIN_S: Final = 0.1
"""Wait before a retry: a command that checks whether this run is alive holds its lock briefly."""


class InUse(RuntimeError):
    """Another run uses the data folder or a port. The message says where that run is."""


@contextmanager
def claimed(data: Path) -> Iterator[list[str]]:
    """Lock the data folder of one run; yield the folders of this user's other runs. Raises InUse and OSError."""
    data = data.absolute()
    make_folder(data)
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
        with suppress(OSError):  # the home is not writable: other runs do not know of this one
            listed.mkdir(parents=True, exist_ok=True)
            entry.write_text(str(data), encoding="utf-8")
        try:
            yield others
        finally:
            with suppress(OSError):
                entry.unlink(missing_ok=True)


def port_of(option: str, port: int, *, is_given: bool) -> int:
    """The port, or 0 (a free one) if a default port is in use. Raises InUse for an explicitly given port."""
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
    """The data folders of the listed runs that are alive."""
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
    """The addresses of the run of a data folder, human-readable."""
    found = {}
    with suppress(settings_file.BadSettings):
        found = settings_file.read(str(data / _FILE))
    named = [f"{what} {found[variable].value}" for what, variable in _PLACES.items() if variable in found]
    # After the end of a run, and until everything serves, the file has only the earlier run's audit table.
    return ", ".join(named) or "it is still starting"


def _held(lock: IO[bytes]) -> bool:
    if fcntl is not None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True
