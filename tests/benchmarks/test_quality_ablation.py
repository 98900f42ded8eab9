from collections.abc import Mapping
from functools import cache
from pathlib import Path

import orjson
import pytest

from benchmarks.quality import ablation
from benchmarks.quality.__main__ import main
from benchmarks.quality.ablation import ALONE, COLUMNS, WHOLE, WITHOUT, Variant
from benchmarks.quality.judging import ours
from benchmarks.quality.sessions import Known, files_in, read, read_judgements
from benchmarks.runaways import FAMILIES
from benchmarks.runaways.watching import watch
from haltline.detectors import PATTERNS
from haltline.schemas.policy import Policy
from haltline.streams.engine.core import Core
from haltline.streams.replay.backtest import backtest
from tests.benchmarks.recorded import Steps, alike, deletes, reads, verdict, write, write_judged

STOPPED, TOLD = COLUMNS[0], "sound: told"


SESSIONS: Mapping[str, tuple[Steps, Mapping[str, bool]]] = {
    "deletes": (deletes(3), {}),
    "after a kill": ([*deletes(3), *alike(12)], {}),
    "alike": (alike(12), {}),
    "both": ([*alike(6), *reads(2), *deletes(3)], {}),
    "sound": (reads(9), {}),
    "false-alarm": (deletes(2), {}),
}
VERDICTS = {
    "deletes": verdict("stop", begins=0, signal=2),
    "after a kill": verdict("stop", begins=3, signal=5),
    "alike": verdict("stop", begins=0, signal=6),
    "both": verdict("nudge", begins=0, signal=4),
    "sound": verdict("sound"),
    "false-alarm": verdict("sound"),
}


@pytest.fixture
def known(tmp_path: Path) -> list[Known]:
    folder = write_judged(tmp_path, SESSIONS, VERDICTS)
    return list(read(files_in(folder), read_judgements(folder)))


EVERY: list[Variant] = [WHOLE, *((which, rule) for which in (ALONE, WITHOUT) for rule in PATTERNS)]


@cache
def core_of(variant: Variant) -> Core:
    which, rule = variant
    policy = Policy()
    return Core({ALONE: ablation.only, WITHOUT: ablation.without}[which](policy, rule) if rule else policy)


def sessions_of(found: Mapping[Variant, frozenset[str]], variant: Variant) -> frozenset[str]:
    return found.get(variant, frozenset() if variant[0] == ALONE else found[WHOLE])


def test_what_is_left_out_would_have_changed_nothing(known: list[Known]) -> None:
    variants = ablation._Variants(Policy(), known)
    for number, session in enumerate(known):
        found = variants(number)
        for variant in EVERY:
            measures = ours(backtest(core_of(variant), session.session)).measures(session)
            columns = {f"{session.kind.value}: {measure}" for measure in measures}
            assert sessions_of(found, variant) == columns, (session.session_id, variant)


@pytest.mark.parametrize("family", [pytest.param(n, id=f.name) for n, f in enumerate(FAMILIES) if n % 30 == 0])
def test_nor_would_it_in_generated_sessions(family: int) -> None:
    found = ablation._Variants(Policy(), ())((family, 1))
    case, within = FAMILIES[family].case(1), FAMILIES[family].within
    for variant in EVERY:
        seen = watch(core_of(variant), case)
        columns = sessions_of(found, variant)
        assert (ablation.CAUGHT in columns) == (within is not None and seen.caught(within)), variant
        assert ("healthy: stopped" in columns) == (within is None and seen.stopped is not None), variant


@pytest.mark.wide  # every family of runaways with and without every rule
def test_recorded_and_generated_sessions_are_reported_by_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, file = write_judged(tmp_path, SESSIONS, VERDICTS), write(tmp_path, {})
    options = ["--judged", str(folder), "--ablation", "--seeds", "1", "--cost-share", "0", "--jobs", "2"]
    assert main([str(file), *options, "--json"]) == 0
    rules = {row["rule"]: row for row in orjson.loads(capsys.readouterr().out)["rules"]}
    assert list(rules) == list(PATTERNS)
    assert rules["destructive_repeat"]["effects"]["stop: stopped"]["alone"] == 2
    assert rules["monologue"]["families_lost"] == {"monologue": 1, "empty_talk": 1, "chanting": 1}
    assert rules["monologue"]["effects"]["synthetic: caught"]["own"] == 3
    assert rules["budget"]["nothing_of_its_own"]
    assert rules["budget"]["cost_ns"] is None
    assert (rules["budget"]["mode"], rules["goal_drift"]["mode"]) == ("enforce", "shadow")
