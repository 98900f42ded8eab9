from pathlib import Path

import orjson
import pytest

from benchmarks.core import main
from benchmarks.reporting.core_report import BOTH, CALIBRATION, CORE, DECODE
from tests.benchmarks.recorded import alike, deletes, reads, write


def test_everything_is_measured_over_every_event(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, {"a": (reads(5), {}), "b": (deletes(3), {}), "c": (alike(4), {})})
    assert main([str(file), "--copies", "3", "--rounds", "1", "--json"]) == 0
    document = orjson.loads(capsys.readouterr().out)
    assert (document["settings"]["events"], document["settings"]["sessions"]) == (2 * 12 * 3, 9)
    assert [cost["name"] for cost in document["costs"]] == [CALIBRATION, DECODE, CORE, BOTH]
    assert all({"cpu_ns", "per_s"} <= cost.keys() for cost in document["costs"])
    states = document["states"]
    assert 0 < states["bytes_median"] <= states["bytes_max"]
