"""A reader of zip archives with size limits, also for files compressed with Zstandard, as in logs of Inspect."""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, Self, cast

MAX_MEMBER_BYTES: Final = 256 * 2**20
"""The size limit of one decompressed file; a log has a file for each sample."""
MAX_TOTAL_BYTES: Final = 32 * 2**30
"""The size limit of all decompressed files of one archive: repeated bytes compress to almost nothing."""
MAX_MEMBERS: Final = 100_000
_ZSTANDARD = 93
_MAX_WINDOW_BYTES = 128 * 2**20
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_CHUNK_BYTES = 2**20


class NotUnpacked(Exception):
    """An archive or a file in it cannot be decompressed: what was expected and what was given."""


class _Damaged(Exception):
    """Data compressed with Zstandard is damaged or incomplete."""


def is_archive(path: Path) -> bool:
    """Whether the file is a zip archive. Raises OSError when it cannot be read."""
    with path.open("rb") as file:
        return file.read(4) in (b"PK\x03\x04", b"PK\x05\x06")


class Archive:
    """An open archive; to be used in a `with` block. Its directory is read once."""

    def __init__(self, path: Path) -> None:
        """Raises NotUnpacked for a damaged archive, and for one with too many files or with files that share bytes."""
        self._path = path
        self._left = MAX_TOTAL_BYTES
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError) as error:
            raise NotUnpacked(f"expected a whole zip archive, got {error}") from None
        infos, size = self._zip.infolist(), path.stat().st_size
        packed = sum(info.compress_size for info in infos)
        why = ""
        if len(infos) > MAX_MEMBERS:
            why = f"expected at most {MAX_MEMBERS} files in the archive, got {len(infos)}"
        elif packed > size:  # several names for the same bytes
            why = f"expected files of at most {size} bytes packed in the archive, got {packed}"
        if why:
            self._zip.close()
            raise NotUnpacked(why)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @property
    def names(self) -> list[str]:
        """The names of its files, each once."""
        return list(dict.fromkeys(self._zip.namelist()))

    def unpacked(self, name: str) -> bytes:
        """Return the content of one file: at most MAX_MEMBER_BYTES, and MAX_TOTAL_BYTES for all requested files.

        Raises:
            NotUnpacked: it is damaged or larger, or its compression is unknown.

        """
        try:
            info = self._zip.getinfo(name)
            found = b"".join(self._chunks(info))
        except (zipfile.BadZipFile, _Damaged, zlib.error, EOFError) as error:
            raise NotUnpacked(f"expected a whole file in the archive, got {error}") from None
        except (NotImplementedError, RuntimeError, KeyError, ValueError, struct.error) as error:
            raise NotUnpacked(f"expected a file packed with deflate or Zstandard, got {error}") from None
        if info.compress_type == _ZSTANDARD and zlib.crc32(found) != info.CRC:
            raise NotUnpacked("expected a whole file in the archive, got another checksum")
        return found

    def _chunks(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        total = 0
        reader = _zstandard(self._path, info) if info.compress_type == _ZSTANDARD else _other(self._zip, info)
        while self._left > 0 and (chunk := next(reader, None)) is not None:
            total += len(chunk)
            self._left -= len(chunk)
            if total > MAX_MEMBER_BYTES:
                raise NotUnpacked(f"expected at most {MAX_MEMBER_BYTES} bytes unpacked, got more")
            yield chunk
        if self._left <= 0:
            raise NotUnpacked(f"expected at most {MAX_TOTAL_BYTES} bytes of all files unpacked, got more")


def _other(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(info) as member:
        while chunk := member.read(_CHUNK_BYTES):
            yield chunk


def _zstandard(path: Path, info: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the content of a file compressed with Zstandard, which Python's zip reader supports from 3.14 on."""
    try:
        import zstandard  # noqa: PLC0415  # an agent installs haltline without it
    except ModuleNotFoundError:
        raise NotUnpacked("needs zstandard: pip install 'haltline[processor]'") from None
    with path.open("rb") as file:
        file.seek(info.header_offset)
        signature, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        if signature != b"PK\x03\x04":
            raise NotUnpacked(f"expected the header of a file in the archive, got {signature!r}")
        file.seek(name_bytes + extra_bytes, 1)
        limits = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
        left = info.compress_size
        with limits.stream_reader(cast("IO[bytes]", _Bounded(file, left)), read_across_frames=True) as reader:
            try:
                while chunk := reader.read(_CHUNK_BYTES):
                    yield chunk
            except zstandard.ZstdError as error:
                raise _Damaged(str(error)) from None


class _Bounded:
    """The next bytes of a file up to a number, with the method that the decompressor calls."""

    def __init__(self, file: IO[bytes], left: int) -> None:
        self._file, self._left = file, left

    def read(self, size: int) -> bytes:
        chunk = self._file.read(min(size, self._left))
        self._left -= len(chunk)
        return chunk
