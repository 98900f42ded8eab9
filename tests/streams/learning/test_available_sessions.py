"""What `haltline doctor` says of a calibration."""

from fractions import Fraction
from pathlib import Path

import pytest

from haltline.streams.learning import available_sessions
from haltline.streams.learning.available_sessions import WHAT, calibration_sessions
from haltline.streams.learning.false_stops import upper_bound
from haltline.streams.operator.health_checks import Verdict
from tests.streams.learning.recorded import labelled_log


def test_the_sessions_of_the_table_are_counted_and_what_they_vouch_for(tmp_path: Path) -> None:
    log = labelled_log(runaways=2, sound=1, missed=1, quiet=3)
    table = log.log.audited(tmp_path / "audit")
    check = calibration_sessions(str(table), {})
    assert (check.what, check.verdict) == (WHAT, Verdict.NOTE)
    assert check.found == (
        "4 of 1,497 that a budget of 1/500 needs at least, and 3 labelled runaways; with no stop among them they "
        f"vouch for 1/{int(1 / upper_bound(0, 4))}"
    )
    assert check.do.startswith("haltline calibrate --budget 1/500 shows a preview")


def test_with_as_many_as_the_budget_needs_it_is_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = labelled_log(runaways=0, sound=0, missed=0, quiet=3).log.audited(tmp_path / "audit")
    monkeypatch.setattr(available_sessions, "BUDGET", Fraction(2, 3))
    check = calibration_sessions(str(table), {})
    assert (check.verdict, check.do) == (Verdict.OK, "haltline calibrate --budget 2/3")


def test_without_a_table_it_is_a_note_with_what_to_do(tmp_path: Path) -> None:
    check = calibration_sessions(str(tmp_path / "none"), {})
    assert (check.verdict, "haltline audit" in check.do) == (Verdict.NOTE, True)
    assert "none" in check.found
