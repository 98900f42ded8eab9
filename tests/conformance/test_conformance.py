import fcntl
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.cases import CASES
from tests.conformance.environments import case_of, drivers, python_of, require_environment
from tests.conformance.harness import CAPABILITIES
from tests.conformance.table import lacks_of
from tests.locks import ROOT

RUN_S = 600


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run of the tests, the same for all its processes."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def results_of(driver: str, adapter: str, shared: Path) -> dict[str, dict[str, Any]]:
    """The result of every case; the first test process runs them once."""
    results, errors = shared / f"conformance-{driver}.jsonl", shared / f"conformance-{driver}.log"
    with (shared / f"conformance-{driver}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not results.exists():
            with errors.open("w") as err, results.open("w") as out:
                command = [str(python_of(adapter)), "-m", "tests.conformance", driver]
                environ = {**os.environ, "HOME": str(shared), "PYTHONWARNINGS": "ignore"}
                subprocess.run(command, cwd=ROOT, stdout=out, stderr=err, check=False, timeout=RUN_S, env=environ)
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert lines, f"{driver}: expected results, got none:\n{errors.read_text()[-4000:]}"
    return {line["case"]: line for line in lines}


def own_cases(driver: str) -> list[str]:
    """The names of its own cases, read as text: only its own environment can import them."""
    file = ROOT / "tests/conformance/own" / f"{driver}.py"
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return re.findall(r'^@own\("(.+)"\)$', text, re.MULTILINE)


@pytest.mark.parametrize(
    ("driver", "name"), [case_of(of, one, name) for one, of in drivers().items() for name in [*CASES, *own_cases(one)]]
)
def test_an_adapter_conforms(driver: str, name: str, shared: Path) -> None:
    adapter = drivers()[driver]
    require_environment(adapter)
    found = results_of(driver, adapter, shared).get(name)
    assert found is not None, f"{driver}: expected a result of this case, got none: its process ended before"
    if found["result"] == "lacks":
        pytest.skip(f"the framework has no {found['message']}")
    assert found["result"] == "passed", found["message"]


def test_a_driver_lacks_nothing_that_is_no_capability() -> None:
    assert {lack for driver in drivers() for lack in lacks_of(driver)} <= CAPABILITIES.keys()
