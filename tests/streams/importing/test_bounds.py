"""Recordings that are damaged, too large or of another kind: readable parts are read, errors name their place."""

import copy
import gzip
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from haltline.schemas import wire
from haltline.streams.importing import archive, reading
from haltline.streams.importing.formats import FORMATS, Imported
from haltline.streams.importing.reading import NotReadable
from tests.streams.importing.test_formats import RECORDINGS
from tests.streams.importing.test_samples import EXPECTED, SAMPLES
from tests.streams.mangling import mangled

LOG, RUNS = SAMPLES / "inspect.eval", SAMPLES / "langsmith_runs.jsonl"
MEMBER = "samples/night-7_epoch_1.json"


def skipped(file: Path) -> tuple[int, list[str]]:
    imported = Imported(file)
    return len(list(imported.events())), imported.skipped


def test_lines_have_no_bound_together_and_what_is_wrong_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = json.loads((SAMPLES / "langfuse_observations.json").read_text())
    answer["data"][1:1] = [7, {"id": 5, "traceId": "t", "type": "TOOL"}, {"name": "accuracy", "value": 1}]
    file = tmp_path / "observations.json"
    file.write_text(json.dumps(answer))
    count, reported = skipped(file)
    assert count == len(EXPECTED["langfuse_observations.json"])
    assert reported == [
        "[0] data[1]: expected an observation of Langfuse, got 7",
        "[0] data[2]: expected id and traceId, got 5 and 't'",
        "[0] data[3]: expected an observation of Langfuse, got an object with name, value",
    ]
    monkeypatch.setattr(reading, "MAX_VALUE_BYTES", 1000)
    packed = tmp_path / "runs.jsonl.gz"
    packed.write_bytes(gzip.compress(RUNS.read_bytes()))
    for file in (RUNS, packed):
        assert skipped(file) == (len(EXPECTED[RUNS.name]), [])
    with pytest.raises(NotReadable, match=r"inspect\.json: expected at most 1000 bytes of one JSON value, got more"):
        Imported(SAMPLES / "inspect.json")
    lines = (SAMPLES / "openai_agents.jsonl").read_text().splitlines()
    lines[2] = lines[2].replace("fact_sales", "fact_sales" * 2000)
    file = tmp_path / "trace.jsonl"
    file.write_text("\n".join(lines))
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 10_000)
    assert skipped(file) == (18, ["line 3: expected a line of at most 10000 bytes, got more"])


def packed_as(path: Path, method: int, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w", method) as written:
        written.writestr("header.json", "{}")
        written.writestr(MEMBER, content)
    return path


def sample() -> bytes:
    with archive.Archive(LOG) as log:
        return log.unpacked(MEMBER)


def test_a_member_that_unpacks_to_more_than_the_bound_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(archive, "MAX_MEMBER_BYTES", 10_000)
    monkeypatch.setattr(archive, "_CHUNK_BYTES", 4096)
    bomb = packed_as(tmp_path / "bomb.eval", zipfile.ZIP_DEFLATED, b" " * 10_001)
    for file in (LOG, bomb):
        assert skipped(file) == (0, [f"{MEMBER}: expected at most 10000 bytes unpacked, got more"])
    monkeypatch.setattr(archive, "MAX_MEMBERS", 2)
    with pytest.raises(NotReadable, match=r"inspect\.eval: expected at most 2 files in the archive, got 5"):
        Imported(LOG)


def log_of(path: Path, count: int) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("header.json", "{}")
        for number in range(count):
            written.writestr(f"samples/{number}.json", sample())
    return path


def test_an_archive_s_files_share_no_bytes_and_have_one_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as written:
        written.writestr("header.json", "{}")
        written.writestr(MEMBER, sample())
        info = written.getinfo(MEMBER)
        for number in range(50):
            again = copy.copy(info)
            again.filename = f"samples/{number}.json"
            written.filelist.append(again)
    with pytest.raises(
        NotReadable, match=r"log\.eval: expected files of at most \d+ bytes packed in the archive, got "
    ):
        Imported(path)
    monkeypatch.setattr(archive, "MAX_TOTAL_BYTES", 2 * len(sample()) + 1)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2):
        assert skipped(packed_as(tmp_path / "one.eval", method, sample())) == (len(EXPECTED[LOG.name]), [])
    count, reported = skipped(log_of(tmp_path / "log.eval", 4))
    assert count == 2 * len(EXPECTED[LOG.name])
    bound = f"expected at most {archive.MAX_TOTAL_BYTES} bytes of all files unpacked, got more"
    assert reported == [f"samples/2.json: {bound}", f"samples/3.json: {bound}"]


def in_archive(name: str) -> bytes:
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w") as written:
        written.writestr(name, "a")
    return kept.getvalue()


def damaged(start: int, bytes_: bytes) -> Callable[[bytes], bytes]:
    return lambda raw: raw[:start] + bytes_ + raw[start + len(bytes_) :]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (LOG.read_bytes()[:-40], "expected a whole zip archive, got "),
        (b"PK\x03\x04" + b"\0" * 100, "expected a whole zip archive, got "),
        (b"\x1f\x8b", "expected a whole gzip file, got "),
        (b"\x1f\x8b\x08junk", "expected a whole gzip file, got "),
        (b"PAR1" + b"\0" * 100, "expected JSON, got a Parquet file; write the dataframe with to_json"),
        (b'["' * 50_000, "expected JSON, or JSON lines, got something else"),
        (b'{"traces": [1]}', f"expected a recording of {', '.join(FORMATS)}, got "),
        (b'{"\\u001b[2J": 1}', f"expected a recording of {', '.join(FORMATS)}, got "),
        (in_archive("a.txt"), "expected a log of Inspect, got an archive with a.txt"),
    ],
)
def test_what_is_no_recording_is_refused(raw: bytes, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(raw)
    with pytest.raises(NotReadable) as refused:
        Imported(file)
    assert str(refused.value).startswith(f"{file}: {expected}")
    assert "\x1b" not in str(refused.value), "names out of a file are harmless on a terminal"


JSON = sorted(set(EXPECTED) - {"inspect.eval"})
PARSED: dict[str, Any] = RECORDINGS | {
    name: [json.loads(line) for line in (SAMPLES / name).read_text().splitlines()] if name.endswith("l") else
          json.loads((SAMPLES / name).read_text()) for name in JSON
}  # fmt: skip
PARSED |= {
    f"{file.parent.name}.json": json.loads(file.read_text())
    for file in SAMPLES.glob("homes/*/api_conversation_history.json")
}
FORM = st.none() | st.sampled_from(FORMATS)


def checked(file: Path, form: str | None) -> None:
    """Either there are events, and reports of what could not be read, or one error that names the file."""
    imported, reported = None, f"{file}: expected nothing"
    try:
        imported = Imported(file, form=form)
        for event in imported.events():
            assert wire.decode_event(event.to_json()) == event
    except NotReadable as why:
        reported = str(why)
    assert reported.startswith(f"{file}:")
    assert "expected" in reported
    for place in imported.skipped if imported is not None else []:
        assert "expected" in place or place.startswith("span ")


@given(data=st.data(), name=st.sampled_from(sorted(PARSED)), times=st.integers(1, 8), form=FORM)
@settings(suppress_health_check=list(HealthCheck))
def test_a_mangled_sample_is_read_or_reported(
    tmp_path: Path, data: st.DataObject, name: str, times: int, form: str | None
) -> None:
    value = PARSED[name]
    for _ in range(times):
        value = mangled(value, data.draw)
    file = tmp_path / name
    is_lines = name.endswith("l") and isinstance(value, list)
    file.write_text("\n".join(map(json.dumps, value)) if is_lines else json.dumps(value))
    checked(file, form)


@given(
    start=st.integers(0, 12_000),
    bytes_=st.binary(min_size=1, max_size=20),
    cut=st.none() | st.integers(0, 12_000),
    form=FORM,
)
@settings(max_examples=30, suppress_health_check=list(HealthCheck), deadline=None)
def test_a_damaged_archive_is_read_or_reported(
    tmp_path: Path, start: int, bytes_: bytes, cut: int | None, form: str | None
) -> None:
    file = tmp_path / "log.eval"
    shutil.copy(LOG, file)
    file.write_bytes(damaged(start, bytes_)(file.read_bytes())[:cut])
    checked(file, form)
