"""`haltline learn`, from an audit table with labels to a valid document."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haltline.cli.common import Exit
from haltline.detectors.features.additive_model import MAX_BINS, Feature, Model
from haltline.detectors.features.novelty import VALUES
from haltline.detectors.session.stagnation import SHIPPED
from haltline.interventions.levels.experiment import arm_of
from haltline.schemas.control import Command
from haltline.schemas.decisions import Arm, Decision, Level, Mode
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Experiment, Policy
from haltline.streams.engine.core import Core
from haltline.streams.learning.comparing import prior_of
from haltline.streams.learning.effect import _of_shares
from haltline.streams.learning.fit import PLACES, ROUNDS, Floats, fit
from haltline.streams.learning.labelled import LASTS, LEADS, Lesson, SessionLabel, Word, labels_by_session, lesson_of
from haltline.streams.learning.spans import Span
from haltline.streams.policy.loader import load_policy
from haltline.streams.replay.backtest import Recorded, backtest
from haltline.streams.replay.label_precision import recorded
from tests.builders import at, cases, event
from tests.streams.commands import said
from tests.streams.learning.recorded import HINTS_ONLY, LabelledLog, checks, digs, labelled_log, loops
from tests.streams.replay.recorded import label_of

POLICY = "name: night\nversion: 4\ncooldown_s: 60\nrules: {cycle: {mode: warn}}\n"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return labelled_log().log.audited(tmp_path_factory.mktemp("labelled") / "audit")


run = partial(said, "learn")
LEARNED = SHIPPED.version + 1


@pytest.fixture(scope="module")
def first(table: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A candidate, its report and plot beside it; and what is said of it."""
    out = tmp_path_factory.mktemp("first") / "candidate.yaml"
    report, plot = out.with_name("report.md"), out.with_name("calibration.svg")
    return out, learned(table, out, "--report", report, "--plot", plot)


def learned(table: Path, out: Path, *arguments: object) -> Any:
    code, output = run("--table", table, "--out", out, "--json", *arguments)
    assert code == Exit.OK, output
    return orjson.loads(output)


def level(policy: Policy, events: Sequence[ActionEvent]) -> Level:
    return Level(backtest(Core(policy), recorded(events[0].session_id, events)).level)


def test_a_candidate_is_learned_from_labels_with_a_report(first: tuple[Path, Any]) -> None:
    out, result = first
    assert (result["prior"], result["model"]) == (f"shipped {SHIPPED.version}", f"learned {LEARNED}")
    assert result["sessions"] == {"confirmed": 8, "missed": 2, "false_alarm": 8, "solved": 0, "quiet": 6}
    before, after = result["quality"]["prior"], result["quality"]["learned"]
    assert (before["caught"], before["false_stops"], before["quiet_stops"]) == (10, 8, 0)
    assert (after["caught"], after["false_stops"], after["quiet_stops"]) == (10, 0, 0)
    assert after["brier"] < before["brier"]
    vanished = {one["session_id"]: one["after"] for one in result["changes"] if one["change"] == "vanishes"}
    assert vanished.keys() == {f"check-{n}" for n in range(8)}
    assert not any("BLOCK" in after for after in vanished.values())
    candidate = load_policy(out)
    rule = candidate.rules["stagnation_candidate"]
    assert (list(candidate.rules), rule.mode) == (["stagnation_candidate"], Mode.SHADOW)
    model = rule.settings["model"]
    assert (model["name"], model["version"]) == ("learned", LEARNED)
    assert (model["trained"]["confirmed"], model["trained"]["seed"]) == (8, 1)
    assert model["quality"]["learned: sound sessions stopped"] == "0 of 8"
    assert ET.parse(out.with_name("calibration.svg")).getroot().findall("{http://www.w3.org/2000/svg}polyline")
    text = out.with_name("report.md").read_text(encoding="utf-8")
    for part in (
        f"# Model learned {LEARNED}", "| precision of stops | 56% | 100% |", "| check-3 | false_alarm | BLOCK at",
        "Brier score", "| unused_20 | up to", f"haltline learn --promote {out}",
    ):  # fmt: skip
        assert part in text


def test_the_policy_is_kept_and_nothing_is_applied(table: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    code, output = run("--table", table, "--out", tmp_path / "candidate.yaml", "--policy", policy)
    assert (code, policy.read_text()) == (Exit.OK, POLICY)
    for part in ("10 of 10 runaways stopped", "0 of 8 sound sessions stopped", "Nothing is applied",
                 f"haltline policy publish {tmp_path / 'candidate.yaml'} --by NAME --reason TEXT"):  # fmt: skip
        assert part in output
    candidate = load_policy(tmp_path / "candidate.yaml")
    assert (candidate.name, candidate.version, candidate.cooldown_s) == ("night", 5, 60)
    assert candidate.rules.keys() == {"cycle", "stagnation_candidate"}
    assert level(candidate, checks("new", 9)) == level(load_policy(policy), checks("new", 9)) == Level.BLOCK


def test_promoted_it_decides_and_is_the_prior_of_the_next(table: Path, tmp_path: Path, first: tuple[Path, Any]) -> None:
    promoted, second = (tmp_path / f"{name}.yaml" for name in ("promoted", "second"))
    code, output = run("--promote", first[0], "--out", promoted)
    assert (code, "Nothing is applied" in output) == (Exit.OK, True)
    policy = load_policy(promoted)
    assert prior_of(policy) != SHIPPED
    assert level(policy, checks("new", 9)) < Level.PAUSE
    assert level(policy, loops("new", 2)) >= Level.PAUSE
    result = learned(table, second, "--policy", promoted)
    assert (result["prior"], result["model"]) == (f"learned {LEARNED}", f"learned {LEARNED + 1}")
    assert result["quality"]["prior"]["false_stops"] == 0


ODD = "<b>|new"
"""A session's name that would be something else in a table of Markdown."""


def written(file: Path, sessions: Sequence[Sequence[ActionEvent]], solved: Sequence[str] = ()) -> Path:
    file.write_bytes(b"\n".join(one.to_json() for events in sessions for one in events))
    rows = [{"session_id": name, "labels": {"resolved": True}} for name in solved]
    file.with_name(f"{file.stem}.sessions.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    return file


def test_sessions_of_files_are_sound_where_they_are_solved_and_else_only_compared(table: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "more.jsonl", [digs("solved", 15), checks(ODD, 1)], solved=["solved"])
    unknown = written(tmp_path / "unknown.jsonl", [digs("unsolved", 15)])
    unknown.with_name("unknown.sessions.jsonl").write_bytes(
        orjson.dumps({"session_id": "unsolved", "labels": {"resolved": False}})
    )
    report = tmp_path / "report.md"
    result = learned(table, tmp_path / "c.yaml", "--sessions", file, "--sessions", unknown, "--report", report)
    assert (result["sessions"]["solved"], result["sessions"]["quiet"]) == (1, 6)
    assert [(one["known"], one["change"]) for one in result["changes"] if one["session_id"] == ODD] == [
        ("", "vanishes")
    ]
    assert "| &lt;b>\\|new | - | BLOCK at" in report.read_text(encoding="utf-8")


def test_too_few_labels_are_an_answer_and_nothing_is_written(tmp_path: Path) -> None:
    table = labelled_log(runaways=1, sound=1, missed=0, quiet=0).log.audited(tmp_path / "audit")
    code, output = run("--table", table, "--out", tmp_path / "c.yaml")
    assert (code, (tmp_path / "c.yaml").exists()) == (Exit.NO, False)
    assert "expected at least 5 sessions that ran away and 5 sound ones, got 1 (1 confirmed, 0 missed) and 1" in output
    assert "haltline label DECISION confirmed|false_alarm" in output


@cases(
    "arguments, text",
    {
        "a folder that is not there": (("--out", "nowhere/c.yaml"), "--out: expected a file"),
        "a report in PDF": (("--out", "c.yaml", "--report", "r.pdf"), "--report: expected a file *.md"),
        "no table": (("--out", "c.yaml", "--table", "none"), "audit table none"),
        "no candidate to promote": (("--out", "c.yaml", "--promote", "policy.yaml"), "expected a model"),
        "no document": ((), "--out: expected a file, got none"),
        "no experiment": (("--effect",), "expected hints of a policy's experiment, got none"),
    },
)
def test_what_cannot_be_used_is_reported(
    table: Path, tmp_path: Path, arguments: tuple[str, ...], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("policy.yaml").write_text(POLICY)
    code, output = run(*(() if "--table" in arguments else ("--table", table)), *arguments)
    assert (code, text in output) == (Exit.NO if "--effect" in arguments else Exit.USAGE, True), output
    assert not Path("c.yaml").exists()


def test_the_effect_of_hints_is_told_less_silent_with_an_interval(tmp_path: Path) -> None:
    log = LabelledLog(HINTS_ONLY.model_copy(update={"experiment": Experiment(rule="repetition")}))
    for name, begin in ((f"loop-{n}", 100.0 * n) for n in range(12)):
        whole = loops(name, 1, begin)
        told = arm_of(Experiment(rule="repetition"), name) is Arm.TOLD  # it goes on to something else
        events = [*whole[: len(whole) // 2], *digs(name, 12, begin + 40, salt=5)] if told else whole
        log.run([*events, event(begin + 60, session=name, kind="session.ended")])
    table = log.log.audited(tmp_path / "audit")
    code, output = run("--effect", "--table", table, "--json")
    ((rule),) = orjson.loads(output)["rules"]
    progress, stopped, calls = rule["measures"]
    assert (code, rule["rule"], progress["told_of"] + progress["silent_of"]) == (Exit.OK, "repetition", 12)
    assert (progress["told"], progress["silent"], progress["low"] > 0, stopped["silent"]) == (1, 0, True, 0)
    assert calls["low"] <= calls["difference"] <= calls["high"] < 0
    assert "hints of repetition, told less silent" in run("--effect", "--table", table)[1]
    of_newcombe = _of_shares("", [True] * 56 + [False] * 14, [True] * 48 + [False] * 32)
    assert (of_newcombe.difference, of_newcombe.low, of_newcombe.high) == (0.2, 0.0524, 0.3339), "his first example"


EVENTS = [event(second, session="s") for second in range(60)]
SESSION = Recorded("s", tuple(enumerate(EVENTS)))


def decision(decision_id: str, rule: str, number: int = 0, session: str = "s") -> Decision:
    return Decision(
        decision_id=decision_id, session_id=session, event_id=EVENTS[number].event_id, time=at(number),
        level=Level.PAUSE, code="c", reason="r", detector=rule,
    )  # fmt: skip


def label(word: str, decision_id: str | None = None, *, rule: str | None = None) -> Command:
    return label_of("s", word, decision_id, rule=rule)


DECISIONS = [
    decision("cycle 30", "cycle", 30),
    decision("stagnation 20", "stagnation", 20),
    decision("deletes", "destructive_volume", 25),
    decision("at once", "cycle", 2),
]
CONFIRMED = Lesson(SESSION, Word.CONFIRMED, Span(30 - LEADS, 30, 30 + LASTS), 0.6, 1.0)
FALSE = Lesson(SESSION, Word.FALSE_ALARM, None, 1.0)
MISSED = Lesson(SESSION, Word.MISSED, Span(0, 40), 0.0, 0.3)


@cases(
    "labels, expected",
    {
        "a loop confirmed: its event is the signal": ([label("confirmed", "cycle 30")], CONFIRMED),
        "the last label counts": ([label("confirmed", "cycle 30"), label("false_alarm", "cycle 30")], FALSE),
        "a false alarm": ([label("false_alarm", "stagnation 20")], FALSE),
        "one of a rule about something else": ([label("false_alarm", "deletes")], replace(FALSE, sound_weight=0.5)),
        "a rule about something else was right": ([label("confirmed", "deletes")], None),
        "missed: its last third": ([label("missed", rule="error_repetition")], MISSED),
        "at the first events": ([label("confirmed", "at once")], replace(CONFIRMED, span=Span(0, 2, 2 + LASTS))),
        "no label": ([], Lesson(SESSION, Word.QUIET, None, 0.2)),
    },
)
def test_what_is_taken_from_labels(labels: list[Command], expected: Lesson | None) -> None:
    assert lesson_of(SESSION, labels_by_session(labels, DECISIONS).get("s"), quiet=True) == expected


def test_a_confirmed_decision_whose_events_are_not_there_says_nothing() -> None:
    other = Recorded("s", tuple(enumerate(EVENTS[:10])))
    assert lesson_of(other, SessionLabel(confirmed=[EVENTS[30].event_id])) is None


Steps = tuple[Floats, Floats, Floats]
few = settings(max_examples=8, deadline=None)
seeds = st.integers(0, 2**16)


def steps(seed: int, rows: int = 400, *, signal: float = 1.0) -> Steps:
    """Values as a session has them, of which the first and the first share tell a fruitless step."""
    draw = np.random.default_rng(seed)
    values = draw.integers(0, 12, (rows, len(VALUES))).astype(np.float64)
    shares = [n for n, value in enumerate(VALUES) if not value.rises and value.start == 1.0]
    values[:, shares] = np.round(values[:, shares] / 12, 3)
    odds = signal * (values[:, 0] - 6 - 5 * (values[:, shares[0]] - 0.5))
    fruitless = (draw.random(rows) < 1 / (1 + np.exp(-odds))).astype(np.float64)
    return values, fruitless, draw.uniform(0.2, 1.0, rows)


def trained(
    of: Steps, monkeypatch: pytest.MonkeyPatch, *, prior: Model | None = None
) -> tuple[Model, lightgbm.Booster]:
    """The model, and the trees that it was made of."""
    boosters: list[lightgbm.Booster] = []
    train = lightgbm.train

    def kept(*arguments: object, **named: object) -> lightgbm.Booster:
        boosters.append(train(*arguments, **named))  # type: ignore[arg-type]  # as they came
        return boosters[-1]

    monkeypatch.setattr(lightgbm, "train", kept)
    model = fit(*of, seed=1, name="m", prior=prior)
    monkeypatch.undo()
    return model, boosters[0]


@pytest.mark.parametrize("prior", [pytest.param(None, id="from nothing"), pytest.param(SHIPPED, id="on a prior")])
def test_points_add_up_to_what_the_trees_say(prior: Model | None, monkeypatch: pytest.MonkeyPatch) -> None:
    of = steps(1)
    model, booster = trained(of, monkeypatch, prior=prior)
    rows = [tuple(row) for row in of[0].tolist()]
    before = np.zeros(len(rows)) if prior is None else np.array(list(map(prior.score, rows)))
    raw = np.asarray(booster.predict(of[0], raw_score=True))
    rounding = (len(VALUES) + 1) * 10**-PLACES
    assert np.abs(np.array(list(map(model.score, rows))) - before - raw).max() <= rounding
    assert np.abs(raw).max() > 0.5, "it has learned something"


@given(seeds, st.booleans())
@few
def test_less_progress_never_lowers_a_score(seed: int, on_prior: bool) -> None:
    model = fit(*steps(seed, 300, signal=0.5), seed=seed, name="m", prior=SHIPPED if on_prior else None, rounds=60)
    for value, feature in zip(VALUES, model.features, strict=True):
        assert list(feature.points) == sorted(feature.points, reverse=not value.rises), value.name


def test_steps_of_one_kind_are_refused_also_where_the_other_weighs_nothing() -> None:
    values, _, weights = steps(1)
    of_runaways = (weights > 0.5).astype(np.float64)
    for fruitless, kept in ((weights * 0, weights), (weights * 0 + 1, weights), (of_runaways, of_runaways)):
        with pytest.raises(ValueError, match="expected steps of runaways and of sound sessions, got only one kind"):
            fit(values, fruitless, kept, seed=1, name="m")


def test_a_prior_with_every_bin_taken_stays_within_the_limit() -> None:
    """Learned again and again, edges add up: the least steps of points are given up."""
    edges = tuple(number / 7 for number in range(MAX_BINS - 1))
    full = Feature(VALUES[0].name, edges, tuple(number / 100 for number in range(MAX_BINS)))
    prior = replace(SHIPPED, features=(full, *SHIPPED.features[1:]))
    values, fruitless, weights = steps(3)
    values[:, 0] = np.round(values[:, 0] + np.random.default_rng(3).random(len(values)), 3)
    model = fit(values, fruitless, weights, seed=1, name="m", prior=prior, rounds=ROUNDS)
    points = model.features[0].points
    assert 1 < len(points) <= MAX_BINS
    assert list(points) == sorted(points)
    assert points[-1] > full.points[-1]
    assert model.features[0].edges != full.edges
