"""Two policies on one history, and one setting with several values: on the audit table, a broker and files."""

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from haltline.cli.app import app
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.policy import Policy
from haltline.streams.policy.loader import BadPolicy
from haltline.streams.replay.backtest import FirstStop, Result
from haltline.streams.replay.history import labels_of, sessions_of
from haltline.streams.replay.whatif import change_of, parse_sweep, totals_of
from tests.builders import at
from tests.mock_cluster import QuickBroker
from tests.streams.replay.recorded import TOPICS, LiveLog, a_night, deletes
from tests.streams.replay.test_kafka_range import put

OTHERS = "destructive_volume: {mode: shadow}, repetition: {mode: shadow}, verify_mismatch: {mode: shadow}"
SOFT = f"rules: {{destructive_repeat: {{mode: shadow}}, {OTHERS}}}"
SWEEP = "rules.destructive_repeat.settings.same_target_prior"


def label(session: str, text: str, number: int = 0, rule: str | None = None) -> Command:
    return Command(
        command_id=f"{session}-{text}-{number}", kind=CommandKind.LABEL, id=session, by="ada", reason="looked at it",
        time=at(900), label=text, decision_id=None if rule else f"d{number}", code=rule,
    )  # fmt: skip


@pytest.fixture(scope="module")
def night() -> LiveLog:
    log = a_night()
    for command in (label("night-1", "confirmed"), label("night-2", "false_alarm"), label("day-1", "missed", rule="x")):
        log.command(command)
    return log


@pytest.fixture(scope="module")
def table(night: LiveLog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return night.audited(tmp_path_factory.mktemp("night") / "audit")


def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["backtest", *map(str, arguments)], env={"COLUMNS": "200"})
    return done.exit_code, done.output


def lines(output: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in output.splitlines()]


def result(first: FirstStop | None = None, level: str = "ALLOW", **fields: Any) -> Result:
    return Result("s", 1, level=level, first=first, **fields)


KILLED = FirstStop(2, "e", "rule", "KILL")


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        pytest.param(result(), result(), "same", id="nothing then and now"),
        pytest.param(result(KILLED, "KILL"), result(), "appears", id="a stop that was none"),
        pytest.param(result(), result(KILLED, "KILL"), "vanishes", id="a stop that is none"),
        pytest.param(result(KILLED, "KILL"), result(FirstStop(9, "f", "rule", "KILL"), "KILL"), "moves", id="later"),
        pytest.param(result(level="NUDGE"), result(), "moves", id="told more"),
    ],
)
def test_a_trip_appears_vanishes_or_moves(new: Result, old: Result, expected: str) -> None:
    assert change_of(new, old) == expected


def test_precision_is_of_labelled_sessions_that_are_stopped() -> None:
    results = [
        result(KILLED, label="confirmed"), result(KILLED, label="confirmed"), result(KILLED, label="false_alarm"),
        result(label="missed"), result(label="false_alarm"), result(KILLED), result(level="NUDGE"),
    ]  # fmt: skip
    totals = totals_of(results)
    assert totals.quality is not None
    assert (totals.quality.precision, totals.quality.recall) == (2 / 3, 2 / 3)
    assert (totals.stopped, totals.nudged) == (4, 1)
    assert totals.stopped_by_label == {"-": 1, "confirmed": 2, "false_alarm": 1}
    assert totals_of([result(KILLED)]).quality is None


def test_the_last_label_of_a_decision_counts_and_the_strongest_of_a_session() -> None:
    output = [label("a", "confirmed", 1), label("a", "false_alarm", 1), label("b", "false_alarm", 2)]
    assert labels_of([*output, label("b", "confirmed", 3)]) == {"a": "false_alarm", "b": "confirmed"}


def test_history_is_each_session_with_its_events_once_and_its_label(night: LiveLog) -> None:
    found = {session.session_id: session for session in sessions_of(night)}
    assert set(found) == {"night-1", "night-2", *(f"day-{number}" for number in range(4))}
    assert [number for number, _ in found["night-1"].events] == list(range(10))
    assert (found["night-1"].label, found["day-1"].label, found["day-2"].label) == ("confirmed", "missed", None)


def test_two_policies_on_the_audit_table(table: Path, tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text("name: new")
    (tmp_path / "old.yaml").write_text(SOFT)
    options = ("--policy", tmp_path / "new.yaml", "--against", tmp_path / "old.yaml")
    code, output = run(table, *options)
    assert code == 0, output
    assert "2 of 6 sessions differ" in output
    assert "trips: 2 appear, 0 vanish" in output
    assert "would be killed: night-1 (confirmed)" in output
    assert "at 4: KILL by destructive_repeat" in output
    assert "precision 50%; recall 50%" in output
    code, output = run(table, *options, "--json")
    *sessions, last = lines(output)
    assert {one["session_id"] for one in sessions if one["change"] == "appears"} == {"night-1", "night-2"}
    assert last["summary"]["changes"] == {"appears": 2, "same": 4}
    assert last["summary"]["policy"]["quality"]["precision"] == 0.5


def test_a_broker_and_the_table_and_a_file_say_the_same(night: LiveLog, table: Path, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join(r.value or b"" for r in night.inputs() if r.topic == TOPICS.actions))
    with QuickBroker() as broker:
        broker.ensure_topics(TOPICS)
        put(broker.bootstrap, night)
        outputs = [run(*source, "--json") for source in ((table,), ("kafka", "--bootstrap", broker.bootstrap), (file,))]
    stops = [{one["session_id"]: one["first"] for one in lines(output)} for _, output in outputs]
    assert stops[0] == stops[1] == stops[2]
    assert sum(first is not None for first in stops[0].values()) == 2


def test_a_sweep_prints_a_row_for_each_value_and_draws_it(table: Path, tmp_path: Path) -> None:
    plot = tmp_path / "sweep.svg"
    alone = tmp_path / "alone.yaml"
    alone.write_text(f"rules: {{{OTHERS}}}")
    code, output = run(table, "--policy", alone, "--sweep", f"{SWEEP}=1,2,4,40", "--plot", plot, "--json")
    assert code == 0, output
    found = lines(output)
    assert [one["value"] for one in found] == [1, 2, 4, 40]
    stopped = [one["stopped"] for one in found]
    assert stopped == sorted(stopped, reverse=True)
    assert (stopped[0], stopped[-1]) == (2, 0)
    drawn = ET.fromstring(plot.read_text())
    assert len(drawn.findall("{http://www.w3.org/2000/svg}polyline")) == 4
    code, output = run(table, "--policy", alone, "--sweep", f"{SWEEP}=1,40")
    assert (code, "stopped: confirmed" in output) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["--sweep", "max_deletes=2"], "expected rules.NAME.settings.X", id="no place"),
        pytest.param(["--sweep", f"{SWEEP}=0"], "same_target_prior", id="a value out of bounds"),
        pytest.param(["--sweep", "rules.nothing.settings.x=1"], "nothing", id="no such rule"),
        pytest.param(["--plot", "x.svg"], "--plot with --sweep", id="a plot of nothing"),
        pytest.param(["--sweep", f"{SWEEP}=1,2", "--plot", "x.png"], "expected a file FILE.svg", id="another format"),
        pytest.param(["--sweep", f"{SWEEP}=1", "--plot", "no/x.svg"], "expected a file FILE.svg", id="no such folder"),
        pytest.param(["--sweep", f"{SWEEP}=1,x", "--plot", "x.svg"], "expected numbers", id="no place on an axis"),
    ],
)
def test_what_cannot_be_swept_is_reported(table: Path, arguments: list[str], text: str) -> None:
    code, output = run(table, *arguments)
    assert (code, text in output) == (2, True), output


def test_history_without_sessions_is_not_a_success(table: Path) -> None:
    code, output = run(table, "--from", "2030-01-01T00:00:00Z")
    assert (code, "expected sessions in this range, got none" in output) == (1, True), output


def test_a_sweep_reads_numbers_and_words() -> None:
    assert parse_sweep("rules.a.settings.b=2,3.5,true,word").values == (2, 3.5, True, "word")
    with pytest.raises(BadPolicy):
        parse_sweep("rules.a.settings.b=")


def test_costs_are_what_was_refused_and_what_was_spent_after_the_stop(tmp_path: Path) -> None:
    prices = {"interventions": {"prices": [{"action": "delete_*", "usd": 3}]}}
    (tmp_path / "priced.yaml").write_text(orjson.dumps(prices).decode())
    Policy.model_validate(prices)
    events = [
        one if one.outcome is None else one.model_validate({**one.model_dump(), "usage": {"cost_usd": 0.5}})
        for one in deletes("s", 0, 6, 12, 18, 24)
    ]
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join(one.to_json() for one in events))
    code, output = run(file, "--policy", tmp_path / "priced.yaml", "--json")
    (one,) = lines(output)
    assert (code, one["cost_prevented_usd"], one["cost_after_stop_usd"]) == (0, 3.0, 1.5)
