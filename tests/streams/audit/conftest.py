"""Tables to test with. What holds for one holds for the other."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.simulator.memory_table import MemoryAuditTable
from haltline.streams.audit.table import AuditTable, DeltaAuditTable
from tests.streams.audit.log import Position, audited
from tests.streams.audit.tables import Audit


@pytest.fixture(params=["delta", "memory"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> AuditTable:
    """An empty table of each kind."""
    return MemoryAuditTable() if request.param == "memory" else DeltaAuditTable(tmp_path / "audit")


@pytest.fixture
def positions() -> Callable[[AuditTable], list[Position]]:
    """Says which records a table holds: topic, partition, offset, sorted, repeated ones repeated."""

    def read(table: AuditTable) -> list[Position]:
        if isinstance(table, DeltaAuditTable):
            return audited(Path(table.uri))
        assert isinstance(table, MemoryAuditTable)
        return sorted((row["topic"], row["partition"], row["offset"]) for row in table.rows)

    return read


@pytest.fixture(scope="session")
def audit_as_filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an audit that nobody may change."""
    folder = tmp_path_factory.mktemp("audit")
    Audit.filled(folder)
    return folder


@pytest.fixture
def audit(audit_as_filled: Path, tmp_path: Path) -> Audit:
    """A signed audit with 80 rows, of this test alone."""
    shutil.copytree(audit_as_filled, tmp_path, dirs_exist_ok=True)
    return Audit(tmp_path)
