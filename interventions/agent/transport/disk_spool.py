"""A disk spool: records that wait while the broker is down, in order, in bounded files, also for the next process.

Each process writes its own files and holds them locked; the next process that opens the folder takes over files of
ended ones. A record is length-prefixed and has a checksum, so that an incomplete one at the end of a file is skipped. A
record may be sent twice: consumers deduplicate by its id. An unreadable file is renamed, for manual inspection.
"""

import logging
import os
import struct
import threading
import time
import uuid
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

from haltline.interventions.agent.settings import GuardSettings

try:
    import fcntl
except ImportError:  # no POSIX: files of ended processes are not taken over
    fcntl = None  # type: ignore[assignment]

log: Final = logging.getLogger("haltline.agent")

_HEAD = struct.Struct(">HHII")  # bytes of topic, key and value; checksum
_FILE_BYTES = 4 * 1024 * 1024
_MIB = 1024 * 1024
_SUFFIX = ".spool"
_SET_ASIDE = ".unreadable"

Send: TypeAlias = Callable[[str, bytes, bytes, Callable[[bool], None]], bool]
"""Takes a record's topic, key and value, and later reports once whether it arrived. False: it accepts no more now."""


class DiskSpool:
    """First in, first out. Thread safe. Raises OSError if the folder cannot be created or written to."""

    def __init__(self, folder: str | os.PathLike[str], *, max_bytes: int) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._max_bytes = max_bytes
        self.lost = 0
        """Records that could not be read back. A damaged header counts as one, as the number of records after it is
        unknown.
        """
        self._lock = threading.RLock()
        self._draining = threading.Lock()
        self._files: deque[Path] = deque()
        self._locks: dict[Path, BinaryIO] = {}
        self._writing: BinaryIO | None = None
        self._taken_to: dict[Path, int] = {}
        self._on_the_way: dict[Path, _OnTheWay] = {}
        self._bytes = 0
        self._adopt()

    def __bool__(self) -> bool:
        return bool(self._files)

    @property
    def size_bytes(self) -> int:
        """The bytes of waiting records."""
        return self._bytes

    def append(self, topic: str, key: bytes, value: bytes) -> bool:
        """Append one record. False: there is no room, or the disk fails."""
        name = topic.encode()
        checksum = zlib.crc32(name + key + value)
        data = _HEAD.pack(len(name), len(key), len(value), checksum) + name + key + value
        with self._lock:
            if self._bytes + len(data) > self._max_bytes:
                return False
            try:
                file = self._file()
                file.write(data)
                file.flush()
            except OSError as error:
                log.warning("haltline: %s: cannot keep what the broker does not take: %s", self._folder, error)
                return False
            self._bytes += len(data)
            return True

    def drain(self, send: Send) -> int:
        """Send waiting records, oldest first, until `send` accepts no more. Returns how many it accepted.

        A file is removed when all of it has arrived. Until then the next process sends it again from its beginning, and
        this one from where it stopped, or from the first record that did not arrive.
        """
        sent = 0
        with self._draining:
            while (path := self._oldest()) is not None:
                done, taken = self._hand_out(path, send)
                sent += taken
                if not done:
                    break
        return sent

    def close(self) -> None:
        """Close the files; waiting records stay for the next process."""
        with self._lock:
            self._stop_writing()
            for file in self._locks.values():
                file.close()
            self._locks.clear()
            self._files.clear()
            self._on_the_way.clear()

    def _hand_out(self, path: Path, send: Send) -> tuple[bool, int]:
        taken, at, lost = 0, self._taken_to.pop(path, 0), 0
        with self._lock:
            way = self._on_the_way.setdefault(path, _OnTheWay())
        try:
            with path.open("rb") as file:
                file.seek(at)
                for record, end in _records(file, at):
                    if record is None:
                        lost += 1
                    else:
                        with self._lock:
                            way.count += 1
                        if not send(*record, self._report(path, way, at)):
                            with self._lock:
                                way.count -= 1
                            self._taken_to[path] = at
                            return False, taken
                        taken += 1
                    at = end
        except OSError as error:
            lost += 1
            aside = path.with_suffix(_SET_ASIDE)
            log.warning("haltline: %s cannot be read, and is kept as %s: %s", path, aside.name, error)
            with suppress(OSError), self._lock:
                size = path.stat().st_size
                path.rename(aside)
                self._bytes = max(0, self._bytes - size)
        finally:
            if lost:
                self.lost += lost
                log.warning("haltline: %s: %d damaged records were left out", path, lost)
        with self._lock:
            with suppress(ValueError):
                self._files.remove(path)
            way.all_taken = True
            self._settle(path, way)
        return True, taken

    def _report(self, path: Path, way: "_OnTheWay", at: int) -> Callable[[bool], None]:
        def arrived(ok: bool) -> None:
            with self._lock:
                way.count -= 1
                if not ok:
                    way.again_from = at if way.again_from is None else min(at, way.again_from)
                self._settle(path, way)

        return arrived

    def _settle(self, path: Path, way: "_OnTheWay") -> None:
        """With the lock held: remove a file whose records are all confirmed, or queue it again."""
        if way.count or not way.all_taken or path not in self._locks:  # not locked: closed, for the next process
            return
        del self._on_the_way[path]
        if way.again_from is None:
            self._remove(path)
        else:
            self._taken_to[path] = way.again_from
            self._files.appendleft(path)

    def _oldest(self) -> Path | None:
        with self._lock:
            if not self._files:
                return None
            path = self._files[0]
            if len(self._files) == 1:  # later records go to another file
                self._stop_writing()
            return path

    def _file(self) -> BinaryIO:
        if self._writing is not None and self._writing.tell() < _FILE_BYTES:
            return self._writing
        self._stop_writing()
        # Names sort by age, also among those of several processes.
        path = self._folder / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}{_SUFFIX}"
        self._writing = open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115 - Path.open takes no opener
        if not _hold(self._writing):
            raise OSError(f"{path}: cannot be locked")
        self._locks[path] = self._writing
        self._files.append(path)
        return self._writing

    def _stop_writing(self) -> None:
        if self._writing is not None:
            self._writing.flush()
        self._writing = None

    def _remove(self, path: Path) -> None:
        with self._lock:
            with suppress(OSError):
                self._bytes = max(0, self._bytes - path.stat().st_size)
            path.unlink(missing_ok=True)
            with suppress(ValueError):
                self._files.remove(path)
            held = self._locks.pop(path, None)
            if held is not None:
                held.close()

    def _adopt(self) -> None:
        """Take over the files of ended processes."""
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")) if fcntl is not None else ():
            try:
                file = path.open("rb")
            except OSError:
                continue
            if not _hold(file) or not path.exists():
                file.close()
                continue
            self._locks[path] = file
            self._files.append(path)
            self._bytes += path.stat().st_size


@dataclass(slots=True)
class _OnTheWay:
    """The records of a file that were sent and are not confirmed yet."""

    count: int = 0
    all_taken: bool = False
    again_from: int | None = None
    """The position of the first record that did not arrive."""


def _records(file: BinaryIO, at: int) -> Iterator[tuple[tuple[str, bytes, bytes] | None, int]]:
    """Yield topic, key and value, None for a damaged record; and the position of the next one."""
    while head := file.read(_HEAD.size):
        if len(head) < _HEAD.size:
            yield None, at + len(head)  # the process ended while it wrote this
            return
        topic, key, value, checksum = _HEAD.unpack(head)
        data = file.read(topic + key + value)
        at += _HEAD.size + len(data)
        if len(data) < topic + key + value or not topic:  # incomplete, or no header: later records cannot be found
            yield None, at
            return
        if zlib.crc32(data) != checksum:
            yield None, at
            continue
        yield (data[:topic].decode(), data[topic : topic + key], data[topic + key :]), at


def _hold(file: BinaryIO) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def spool_of(settings: GuardSettings) -> DiskSpool | None:
    """Return the spool of a guard's settings, if any. Raises ValueError if its folder cannot be used."""
    if settings.spool_dir is None:
        return None
    try:
        return DiskSpool(settings.spool_dir, max_bytes=settings.spool_max_mb * _MIB)
    except OSError as refused:
        raise ValueError(f"spool_dir {settings.spool_dir!r}: expected a folder: {refused}") from refused
