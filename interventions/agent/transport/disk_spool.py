"""Records that wait on disk while the broker is away: in order, in bounded files, also for the next process.

Each process writes files of its own, which it holds locked; what a process that is gone has left behind is taken over
by whoever opens the folder next. A record is length-prefixed and has a checksum, so that a half-written one at the end
of a file is left out. A record may be sent twice: consumers know it by its id. A file that cannot be read is set aside
under another name, for a person.
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
except ImportError:  # no POSIX: files that others left behind are not taken over
    fcntl = None  # type: ignore[assignment]

log: Final = logging.getLogger("haltline.agent")

_HEAD = struct.Struct(">HHII")  # bytes of topic, key and value; checksum
_FILE_BYTES = 4 * 1024 * 1024
_MIB = 1024 * 1024
_SUFFIX = ".spool"
_SET_ASIDE = ".unreadable"

Send: TypeAlias = Callable[[str, bytes, bytes, Callable[[bool], None]], bool]
"""Takes a record's topic, key and value, and says later, once, whether it arrived. False: it takes no more now."""


class DiskSpool:
    """First in, first out. Thread safe. Raises OSError when the folder cannot be made or written to."""

    def __init__(self, folder: str | os.PathLike[str], *, max_bytes: int) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._max_bytes = max_bytes
        self.lost = 0
        """Records that could not be read back; of a damaged head it is not known how many followed: it counts one."""
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
        """What waits."""
        return self._bytes

    def append(self, topic: str, key: bytes, value: bytes) -> bool:
        """Keeps one record. False: there is no room, or the disk does not take it."""
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
        """Hands out what waits, oldest first, until `send` takes no more; how many it took.

        A file is removed when all of it has arrived; until then it is handed out again from its beginning by the next
        process, and by this one from where it stopped, or from the first record that did not arrive.
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
        """What waits stays, for the next process."""
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
        """With the lock held: a file of which every record was confirmed is removed, or waits again."""
        if way.count or not way.all_taken or path not in self._locks:  # not locked: closed, and the next process's
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
            if len(self._files) == 1:  # what comes from now on goes to another file
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
        """Takes over what processes that are gone have left behind."""
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
    """What was handed out of a file and has not arrived yet."""

    count: int = 0
    all_taken: bool = False
    again_from: int | None = None
    """Where the first record begins that did not arrive."""


def _records(file: BinaryIO, at: int) -> Iterator[tuple[tuple[str, bytes, bytes] | None, int]]:
    """Topic, key and value, None for a damaged one; and where the next one begins."""
    while head := file.read(_HEAD.size):
        if len(head) < _HEAD.size:
            yield None, at + len(head)  # the process ended while it wrote this
            return
        topic, key, value, checksum = _HEAD.unpack(head)
        data = file.read(topic + key + value)
        at += _HEAD.size + len(data)
        if len(data) < topic + key + value or not topic:  # half written, or no head: what follows cannot be found
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
    """The one of a guard's settings. Raises ValueError when the disk refuses its folder."""
    if settings.spool_dir is None:
        return None
    try:
        return DiskSpool(settings.spool_dir, max_bytes=settings.spool_max_mb * _MIB)
    except OSError as refused:
        raise ValueError(f"spool_dir {settings.spool_dir!r}: expected a folder: {refused}") from refused
