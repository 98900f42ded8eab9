"""Recordings that are damaged, too large or of another kind: readable parts are read, errors name their place."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from haltline.schemas import wire
from haltline.streams.importing import reading
from haltline.streams.importing.formats import FORMATS, Imported
from haltline.streams.importing.reading import NotReadable
from tests.streams.importing.test_formats import RECORDINGS
from tests.streams.importing.test_samples import EXPECTED, SAMPLES
from tests.streams.mangling import mangled

LINES = SAMPLES / "pi.jsonl"


def skipped(file: Path) -> tuple[int, list[str]]:
    imported = Imported(file)
    return len(list(imported.events())), imported.skipped


def test_lines_have_no_bound_together_and_what_is_wrong_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_VALUE_BYTES", 1000)
    packed = tmp_path / "lines.jsonl.gz"
    packed.write_bytes(gzip.compress(LINES.read_bytes()))
    for file in (LINES, packed):
        assert skipped(file) == (len(EXPECTED[LINES.name]), [])
    with pytest.raises(NotReadable, match=r"atif\.json: expected at most 1000 bytes of one JSON value, got more"):
        Imported(SAMPLES / "atif.json")
    lines = LINES.read_text().splitlines()
    lines[2] = lines[2].replace("fact_sales", "fact_sales" * 2000)
    file = tmp_path / "trace.jsonl"
    file.write_text("\n".join(lines))
    monkeypatch.setattr(reading, "MAX_VALUE_BYTES", 100_000)
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 10_000)
    assert skipped(file) == (13, ["line 3: expected a line of at most 10000 bytes, got more"])


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"\x1f\x8b\x08junk", "expected a whole gzip file, got "),
        (b"PAR1" + b"\0" * 100, "expected JSON, got a Parquet file; write the dataframe with to_json"),
        (b'["' * 50_000, "expected JSON, or JSON lines, got something else"),
        (b'{"\\u001b[2J": 1}', f"expected a recording of {', '.join(FORMATS)}, got "),
    ],
)
def test_what_is_no_recording_is_refused(raw: bytes, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(raw)
    with pytest.raises(NotReadable) as refused:
        Imported(file)
    assert str(refused.value).startswith(f"{file}: {expected}")
    assert "\x1b" not in str(refused.value), "names out of a file are harmless on a terminal"


JSON = [*EXPECTED, "openinference.json"]
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
    assert "ends its importer" not in reported
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
