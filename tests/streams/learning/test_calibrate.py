"""`haltline calibrate`, from labelled sessions to a valid document, and the report of `doctor` about it."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from haltline.cli.common import Exit
from haltline.detectors.framework.settings import construct
from haltline.detectors.session.stagnation import SHIPPED, Stagnation
from haltline.detectors.session.stagnation_candidate import StagnationCandidate
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Policy
from haltline.streams.learning.calibrating import calibrate, ladders, pinned, stopped_together
from haltline.streams.learning.false_stops import choose, upper_bound
from haltline.streams.learning.thresholds import settings_of
from haltline.streams.policy.loader import load_policy, parse_policy
from haltline.streams.replay.backtest import Recorded
from haltline.streams.replay.label_precision import CONFIRMED, FALSE_ALARM
from tests.builders import cases
from tests.streams.commands import said
from tests.streams.learning.recorded import checks, digs, labelled_log, loops


def recorded(events: Sequence[ActionEvent], label: str | None = None) -> Recorded:
    return Recorded(events[0].session_id, tuple(enumerate(events)), label)


RUNAWAYS = [recorded(loops(f"loop-{n}", n), CONFIRMED) for n in range(3)]
LIKE_LOOPS = [recorded(checks(f"check-{n}", n), FALSE_ALARM) for n in range(2)]
SOUND = [recorded(digs(f"sound-{n}", 4, salt=n)) for n in range(28)]
SESSIONS = [*RUNAWAYS, *LIKE_LOOPS, *SOUND]


@pytest.fixture(scope="module")
def found() -> list[Any]:
    return list(ladders(Policy(), SESSIONS))


def test_a_calibrated_policy_is_tried_as_shipped_again_and_a_pinned_model_stays() -> None:
    policy = parse_policy("rules: {stagnation: {settings: {pause_at: 4.6}}}")
    steps, as_set = settings_of(policy, "stagnation")
    assert (as_set, [step["pause_at"] for step in steps[:3]]) == (1, [Stagnation().pause_at, 4.6, 5.75])
    first = pinned(Policy())
    assert first.rules["stagnation"].settings["model"]["version"] == SHIPPED.version
    assert "stagnation_candidate" not in first.rules
    model = {**first.rules["stagnation"].settings["model"], "version": 99}
    rule = first.rules["stagnation"].model_copy(update={"settings": {"model": model}})
    again = pinned(first.model_copy(update={"rules": {**first.rules, "stagnation": rule}}))
    assert again.rules["stagnation"].settings["model"]["version"] == 99
    assert again.rules["stagnation_candidate"].settings["model"]["version"] == SHIPPED.version
    assert not construct(StagnationCandidate, again.rules["stagnation_candidate"].settings).idle


@cases(
    "budget, stopped",
    {
        "a budget that all keep: nothing changes": (1 / 4, 2),
        "a budget that none but no stop keeps": (1 / 10, 0),
        "too few sessions for the budget: no stop": (1 / 500, 0),
    },
)
def test_all_rules_together_keep_the_budget(found: list[Any], budget: float, stopped: int) -> None:
    calibration = calibrate(Policy(), SESSIONS, found, budget)
    assert (len(calibration.fine), len(calibration.runaways), len(calibration.judged)) == (30, 3, 2)
    assert len(stopped_together(calibration.proposed, SESSIONS) & calibration.fine) == stopped
    assert (upper_bound(stopped, 30) <= budget) == calibration.is_enough == (budget >= 1 / 10)
    assert (calibration.proposed.rules == {}) == (stopped == 2)


run = partial(said, "calibrate")


def test_the_audit_table_is_calibrated_and_its_stops_are_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = labelled_log(runaways=1, sound=1, missed=1, quiet=1)
    unjudged = log.run(checks("nobody-judged", 3, begin=5000))
    table, out, labelled = log.log.audited(tmp_path / "audit"), tmp_path / "c.yaml", []

    def label(decision: Decision, word: str, **_: str) -> SimpleNamespace:
        labelled.append((decision.session_id, word))
        return SimpleNamespace(answered=True)

    monkeypatch.setattr("haltline.cli.answers.operator_of", lambda _: SimpleNamespace(label=label))
    code, output = run(
        "--budget", "1/500", "--table", table, "--out", out, "--judge", "--by", "ada", "--examples", 1,
        given="what\nn\n" + "s\n" * 9,
    )  # fmt: skip
    assert code == Exit.OK, output
    for part in ("3 sessions taken for fine, 1 of them judged, and 2 labelled runaways", "3 of 1,497 sessions seen",
                 "expected y, n or s", "false_alarm: is recorded", "Nothing is applied"):  # fmt: skip
        assert part in output
    assert labelled == [(unjudged, FALSE_ALARM)]
    assert out.read_text().startswith("# haltline calibrate\n# budget: 1/500 false stops; data: 3 sessions")
    assert load_policy(out).rules


def test_sessions_of_a_file_are_calibrated_too_and_scripts_get_json(tmp_path: Path) -> None:
    file = tmp_path / "sessions.jsonl"
    file.write_bytes(b"\n".join(one.to_json() for one in digs("a", 3)))
    code, output = run("--budget", "1/500", "--sessions", file, "--json")
    assert (code, orjson.loads(output)["needed"]) == (Exit.OK, 1497)


@cases(
    "arguments, code, text",
    {
        "no share": (("--budget", "500"), Exit.USAGE, "expected a share such as 1/500"),
        "nobody judges": (("--budget", "1/9", "--judge"), Exit.USAGE, "expected --by NAME"),
        "no table": (("--budget", "1/9", "--table", "none"), Exit.USAGE, "audit table none"),
        "no sessions": (("--budget", "1/9", "--sessions", "e.jsonl"), Exit.NO, "expected sessions"),
        "no label": (
            ("--budget", "1/9", "--sessions", "e.jsonl", "--labels", "l.jsonl"),
            Exit.USAGE,
            "l.jsonl:1: expected a label as `haltline scan --html` writes it: Invalid enum value 'perhaps'",
        ),
    },
)
def test_what_cannot_be_used_is_reported(
    tmp_path: Path, arguments: tuple[str, ...], code: Exit, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HALTLINE_OPERATOR", raising=False)
    Path("e.jsonl").touch()
    Path("l.jsonl").write_text('{"session_id": "a", "label": "perhaps"}')
    found, output = run(*arguments)
    assert (found, text in output) == (code, True), output


@cases(
    "stops, sessions, bound",
    {
        "no stop in 1,497: 1 in 500": (0, 1497, 1 / 500),
        "a published value": (1, 10, 0.3942),
        "no session shows nothing": (0, 0, 1.0),
    },
)
def test_the_bound_is_the_exact_one(stops: int, sessions: int, bound: float) -> None:
    assert upper_bound(stops, sessions) == pytest.approx(bound, rel=2e-3)


def test_of_two_rules_the_one_that_finds_runaways_stays() -> None:
    one, two, none = frozenset({"a"}), frozenset({"b"}), frozenset[str]()
    wrong = {"idle": [one, none], "useful": [two, none]}
    right = {"idle": [none, none], "useful": [frozenset({"r"}), none]}
    assert choose(wrong, right, 1) == {"idle": 1, "useful": 0}
