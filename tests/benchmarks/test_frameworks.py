"""The cost of a guarded call in each framework: how it is measured, and its table."""

from pathlib import Path

import orjson
import pytest

from benchmarks.frameworks.__main__ import in_javascript, main, measurable
from benchmarks.frameworks.plain import without_adapter
from tests.locks import ROOT


@pytest.mark.parametrize("driver", [one for one in measurable() if one not in in_javascript()])
def test_each_driver_has_an_adapter_that_can_be_left_out(driver: str) -> None:
    without_adapter(ROOT / f"tests/conformance/drivers/{driver}.py")


def test_a_call_is_measured_plain_and_guarded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "frameworks.json"
    assert main(["--only", "langchain", "--seconds", "0", "--json", str(file)]) == 0
    (found,) = orjson.loads(file.read_bytes())["frameworks"]
    assert (found["driver"], found["rounds"]) == ("langchain", 1)
    assert isinstance(found["plain_wall_us"], float)
    assert "langchain" in capsys.readouterr().out
