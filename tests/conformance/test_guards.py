from pathlib import Path

import pytest

from tests.conformance.guards import CASES, DRIVERS
from tests.mock_cluster import MockCluster


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("name", CASES)
def test_a_guard_has(name: str, driver: str, cluster: MockCluster, tmp_path: Path) -> None:
    if name in DRIVERS[driver].LACKS:
        pytest.skip(f"the client in {driver} has it not")
    CASES[name].check(DRIVERS[driver], cluster, tmp_path)
