"""Detectors of other packages, found as Python finds them: a package on the path, with its metadata."""

from pathlib import Path
from textwrap import dedent

import pytest

from haltline.cli.common import Exit
from haltline.streams.engine.core import Core
from haltline.streams.engine.plugins import installed
from haltline.streams.policy.loader import BadPolicy, parse_policy
from tests.builders import event
from tests.streams.commands import haltline
from tests.streams.sessions.bench import Bench

DETECTOR = '''
from dataclasses import dataclass
from typing import Annotated, ClassVar

import pydantic
from pydantic import Field

from haltline.detectors.features.observation import Observation
from haltline.detectors.framework.base import SETTINGS, Detector
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding, Severity


@dataclass(slots=True)
class State:
    """How often each table was locked."""
    locks: int = 0


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=SETTINGS)
class TableLocks(Detector[State]):
    """More than `limit` locks of tables in one session."""

    id: ClassVar[str] = "table_locks"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.PROPOSED, Kind.COMPLETED})
    limit: Annotated[int, Field(ge=1, le=1000)] = 2

    def start(self) -> State:
        return State()

    def concerns(self, act: Observation) -> bool:
        return act.is_attempt and act.action == "lock_table"

    def observe(self, state: State, act: Observation) -> Finding | None:
        state.locks += 1
        if state.locks <= self.limit:
            return None
        return self.finding("table_locks", Severity.CRITICAL, f"{state.locks} tables locked", (act.evidence,))
'''
POLICY = "name: locks\nrules:\n  table_locks:\n    settings: {limit: 1}\n"
LOCKS = [event(s, "lock_table", f"table=t{s}", kind="action.proposed", outcome=None) for s in range(4)]


def install(site: Path, package: str, code: str, *points: str) -> None:
    """Install a package as pip does: its module, and its metadata with entry points, by default of detectors."""
    (site / f"{package}.py").write_text(dedent(code), encoding="utf-8")
    info = site / f"{package}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("\n".join(["[haltline.detectors]", *points]), encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    return site


@pytest.fixture
def locks(site: Path, request: pytest.FixtureRequest) -> None:
    """Installed under a module name of its own: a module is imported once for all tests."""
    name = f"locks_{abs(hash(request.node.nodeid))}"
    install(site, name, DETECTOR, f"table_locks = {name}:TableLocks")


@pytest.mark.usefixtures("locks")
def test_a_policy_names_it_and_it_decides_and_a_wrong_setting_is_refused_with_its_line() -> None:
    core = Core(parse_policy(POLICY, plugins=installed()), installed())
    outcomes = [core.on_event(None, LOCKS[0])]
    outcomes += [core.on_event(outcomes[0].state, lock) for lock in LOCKS[1:]]
    found = [d.finding.reason for o in outcomes for d in o.detections if d.finding.detector == "table_locks"]
    assert found == [f"{number} tables locked" for number in (2, 3, 4)]
    with pytest.raises(BadPolicy, match=r"^policy:4: rules\.table_locks\.settings\.limit: expected less than or equal"):
        parse_policy(POLICY.replace("limit: 1", "limit: 1001"), plugins=installed())


def test_one_that_raises_is_counted_by_name_and_its_event_kept(site: Path) -> None:
    broken = DETECTOR.replace("state.locks += 1", "state.locks += 1 / 0")
    install(site, "broken_locks", broken, "table_locks = broken_locks:TableLocks")
    plugins = installed()
    worker = Bench(core=Core(parse_policy(POLICY, plugins=plugins), plugins))
    for lock in LOCKS:
        worker.put("haltline.actions", lock)
    assert worker.counted.told.count("table_locks raised") == len(LOCKS)
    assert worker.sent.of("haltline.dead-letter") == [lock.to_json() for lock in LOCKS]


def test_one_that_cannot_be_imported_is_refused_with_the_package_and_the_line_where_a_policy_names_it(
    site: Path,
) -> None:
    install(site, "lame_locks", "import not_installed_anywhere", "table_locks = lame_locks:TableLocks")
    assert installed().ids == ("table_locks",)
    assert parse_policy("name: default", plugins=installed()).name == "default"
    expected = "policy:3: rules.table_locks: lame_locks:TableLocks of lame_locks 1.2: expected a detector that can be"
    with pytest.raises(BadPolicy, match=f"^{expected} imported, got ModuleNotFoundError: No module named 'not_inst"):
        parse_policy(POLICY, plugins=installed())


def test_two_packages_of_one_name_are_refused_by_the_command(site: Path, tmp_path: Path) -> None:
    for package in ("one_pack", "other_pack"):
        install(site, package, DETECTOR, f"table_locks = {package}:TableLocks")
    twice = "expected one detector of the name 'table_locks'"
    with pytest.raises(ValueError, match=f"{twice}, got .*_pack 1.2 and .*_pack"):
        installed()
    result = haltline("backtest", tmp_path / "none.jsonl")
    assert result.exit_code == Exit.USAGE
    assert twice in result.output.replace("\n", " ")
