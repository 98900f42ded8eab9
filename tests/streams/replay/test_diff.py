"""A recorded log through the core once more: the same decisions, or the first that is not."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from haltline.cli.app import app
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Decision
from haltline.schemas.policy import Policy
from haltline.streams.replay.diff import Replayed, replay_and_compare
from haltline.streams.replay.policies import one, published
from haltline.streams.replay.records import LogRecord
from tests.builders import at
from tests.streams.replay.recorded import TOPICS, LiveLog, a_night, deletes, works

QUIET = Policy.model_validate({"rules": {"destructive_repeat": {"levels": {"low": "PAUSE"}}}})


def again(log: LiveLog, policy: Policy | None = None, **more: Any) -> Replayed:
    in_force = one(policy) if policy is not None else published(log.policies(), "default")
    return replay_and_compare(log, in_force, **more)


def test_the_same_policy_makes_every_decision_again_word_for_word() -> None:
    log = a_night()
    found = again(log, exact=True).compared
    assert found.ok
    assert found.recorded == found.replayed == found.same == log.count(TOPICS.interventions) - found.by_clock > 4
    assert (found.outside, found.across) == (0, 0)


def test_what_looks_across_sessions_is_made_again_from_the_recorded_signals() -> None:
    log = LiveLog().events(
        [one for n, name in enumerate("abc") for one in deletes(name, n * 20, n * 20 + 10, agent="x")]
    )
    decided = [orjson.loads(record.value or b"") for record in log.decided()]
    assert any(one["detector"] == "agent_destruction" for one in decided)
    found = again(log, exact=True).compared
    assert (found.ok, found.same) == (True, len(decided) - found.by_clock)


def test_another_policy_diverges_and_the_first_divergence_is_named() -> None:
    found = again(a_night(), QUIET).compared
    assert found.first is not None
    assert sorted(found.first_by_session) == ["night-1", "night-2"]
    assert (found.first.session_id, found.first.what) == ("night-1", "changed")
    assert "level" in found.first.fields
    assert "level 'NUDGE' -> 'PAUSE'" in str(found.first)
    assert found.first.time == at(6)


def test_a_policy_that_was_published_meanwhile_holds_from_then_on() -> None:
    log = LiveLog().events(deletes("before", 0, 6, 12))
    log.publish(QUIET.model_copy(update={"version": 2}))
    log.events(deletes("after", 200, 206, 212))
    assert again(log, exact=True).compared.ok
    found = again(log, Policy()).compared
    assert list(found.first_by_session) == ["after"]


def test_what_the_clock_brought_about_is_left_out_on_both_sides() -> None:
    log = LiveLog().events(deletes("s", 0, 6, 12))
    for _ in range(6):
        log.tick(60_000)
    found = again(log).compared
    assert found.ok
    assert found.by_clock > 0


def test_operators_are_part_of_what_is_replayed() -> None:
    log = LiveLog().events(works("s", 3))
    kill = Command(command_id="k", kind=CommandKind.KILL, id="s", by="ada", reason="enough", time=at(9))
    log.command(kill)
    log.events(works("s", 3, begin=60))
    found = again(log, exact=True).compared
    assert found.ok
    assert found.recorded > 1


def test_a_decision_on_what_is_not_in_the_range_is_not_compared() -> None:
    log = a_night()
    for (topic, _), kept in log.records.items():
        if topic in TOPICS.session_sources:
            del kept[:]
    found = again(log).compared
    assert (found.ok, found.recorded) == (True, 0)
    assert found.outside == log.count(TOPICS.interventions) - found.by_clock


@pytest.mark.parametrize(
    ("change", "what"),
    [
        pytest.param(None, "missing", id="one of then was added"),
        pytest.param({"level": "ALLOW"}, "changed", id="its level was changed"),
        pytest.param({"detector": "other"}, "changed", id="its rule was changed"),
    ],
)
def test_a_record_of_then_that_is_not_what_was_decided_diverges(change: dict[str, str] | None, what: str) -> None:
    log = a_night()
    place, kept = next((p, k) for p, k in log.records.items() if p[0] == TOPICS.interventions and k)
    document = orjson.loads(kept[0].value or b"")
    document |= {"decision_id": "forged"} if change is None else change
    forged = kept[0]._replace(value=orjson.dumps(document), offset=len(kept) if change is None else 0)
    log.records[place] = [*kept, forged] if change is None else [forged, *kept[1:]]
    found = again(log).compared
    assert (found.counts[what], sum(found.counts.values())) == (1, 1)
    assert found.first is not None
    assert found.first.session_id == document["session_id"]


def test_other_words_diverge_only_where_every_field_is_to_be_the_same() -> None:
    log = a_night()
    place, kept = next((p, k) for p, k in log.records.items() if p[0] == TOPICS.interventions and k)
    other = orjson.loads(kept[0].value or b"") | {"reason": "in other words"}
    log.records[place] = [kept[0]._replace(value=orjson.dumps(other)), *kept[1:]]
    loose, strict = again(log).compared, again(log, exact=True).compared
    assert (loose.ok, loose.reworded) == (True, 1)
    assert (strict.ok, strict.counts["changed"]) == (False, 1)


def test_a_choice_of_sessions_takes_in_only_their_records() -> None:
    found = again(a_night(), sessions=["night-2"])
    assert found.compared.ok
    assert found.records == {TOPICS.actions: 8}
    assert 0 < found.compared.recorded < 8


def test_a_decision_that_was_delivered_twice_is_one() -> None:
    log = a_night()
    place, kept = next((p, k) for p, k in log.records.items() if p[0] == TOPICS.interventions and k)
    twice = Decision.model_validate_json(kept[-1].value or b"").model_copy(update={"decided_at": at(1)})
    kept.append(kept[-1]._replace(offset=len(kept), value=twice.to_json()))
    assert again(log, exact=True).compared.ok
    assert place in log.records


def test_a_record_that_cannot_be_read_is_counted_and_the_rest_goes_on() -> None:
    log = a_night()
    kept = log.records[TOPICS.actions, 0]
    kept.append(LogRecord(TOPICS.actions, 0, len(kept), at(500), b"x", b"{"))
    found = again(log)
    assert (found.compared.ok, found.unreadable) == (True, 1)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_night().audited(tmp_path_factory.mktemp("night") / "audit")


def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["replay", *map(str, arguments)], env={"COLUMNS": "200"})
    return done.exit_code, done.output


def test_the_audit_table_replays_to_what_it_holds(table: Path) -> None:
    code, output = run("audit", "--table", table, "--exact", "--json")
    document = orjson.loads(output)
    assert code == 0, output
    assert document["same"] == document["recorded"] == document["replayed"] > 4
    assert document["first_divergence"] is None
    assert sum(span["end"] - span["start"] for span in document["range"]) == sum(document["records"].values())


def test_another_policy_says_what_is_not_the_same(table: Path, tmp_path: Path) -> None:
    (tmp_path / "quiet.yaml").write_text("rules: {destructive_repeat: {levels: {low: PAUSE}}}")
    code, output = run(table, "--policy", tmp_path / "quiet.yaml")
    assert code == 1
    assert "first divergence: session night-1: PAUSE" in output


def test_a_range_in_time_leaves_out_what_was_before_and_after(table: Path) -> None:
    code, output = run(table, "--from", "2025-06-15T15:08:00Z", "--json")
    document = orjson.loads(output)
    assert (code, document["first_divergence"]) == (0, None)
    assert document["records"][TOPICS.actions] == 8
    code, output = run(table, "--to", "2025-06-15T15:08:00Z", "--json")
    document = orjson.loads(output)
    assert (code, document["left_out"]["outside"] > 0) == (0, True)


def test_a_file_of_events_is_decided_on_with_nothing_to_compare(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join(one.to_json() for one in deletes("s", 0, 6, 12)))
    code, output = run(file, "--json")
    document = orjson.loads(output)
    assert (code, document["recorded"]) == (0, 0)
    assert [one["level"] for one in document["decisions"]] == ["NUDGE", "KILL"]


@pytest.mark.parametrize(
    ("choice", "compared"),
    [
        pytest.param(["--detector", "destructive_repeat"], {"destructive_repeat"}, id="a rule's"),
        pytest.param(["--tool", "delete_asset"], None, id="a tool's"),
        pytest.param(["--where", 'args.id == "night-1" or action == "look_up"'], set(), id="a condition's"),
        pytest.param(["--agent", "of night-1"], None, id="an agent's"),
    ],
)
def test_only_chosen_decisions_are_compared_and_everything_is_taken_in(
    table: Path, choice: list[str], compared: set[str] | None
) -> None:
    everything = orjson.loads(run(table, "--exact", "--json")[1])
    code, output = run(table, *choice, "--exact", "--json")
    document = orjson.loads(output)
    if compared == set():
        assert (code, document["recorded"], document["left_out"]["outside"] > 0) == (0, 0, True)
        return
    assert (code, document["records"]) == (0, everything["records"])
    assert 0 < document["same"] == document["recorded"] == document["replayed"] == sum(document["levels"].values())
    assert document["recorded"] < everything["recorded"] or choice[0] == "--tool"


def test_what_is_across_sessions_is_compared_for_a_choice_of_agents_too() -> None:
    log = LiveLog().events(
        [one for n, name in enumerate("abc") for one in deletes(name, n * 20, n * 20 + 10, agent="x")]
    )
    found = again(log, agents=["x"], exact=True).compared
    assert (found.ok, found.across) == (True, 0)
    assert again(log, sessions=["a", "b", "c"]).compared.across > 0


def test_sessions_that_began_before_the_range_are_reported(tmp_path: Path) -> None:
    events = [one.model_copy(update={"seq": number}) for number, one in enumerate(deletes("s", 0, 6, 12))]
    table = LiveLog().events(events).audited(tmp_path / "audit")
    code, output = run(table, "--from", "2025-06-15T15:06:47Z", "--json")
    assert (code, orjson.loads(output)["begun_before"]) == (1, ["s"])
    code, output = run(table, "--from", "2025-06-15T15:06:47Z")
    assert (code, "1 of these 1 sessions began before the range" in output) == (1, True)
    assert orjson.loads(run(table, "--json")[1])["begun_before"] == []


@pytest.mark.parametrize(
    "choice",
    [
        pytest.param(["--session", "nobody"], id="no such session"),
        pytest.param(["--from", "2030-01-01T00:00:00Z"], id="after everything"),
    ],
)
def test_a_replay_of_nothing_is_not_a_success(table: Path, choice: list[str]) -> None:
    code, output = run(table, *choice)
    assert (code, "expected records" in output, "got none" in output) == (1, True, True), output


def test_a_dry_run_counts_what_would_be_taken_in(table: Path) -> None:
    code, output = run(table, "--session", "night-2", "--dry-run", "--json")
    assert (code, orjson.loads(output)["records"]) == (0, {TOPICS.actions: 8})
    code, output = run(table, "--tool", "delete_asset", "--dry-run")
    assert (code, "18 of haltline.actions" in output, "decided now" in output) == (0, True, False), output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(
            ["audit", "--where", "level == 'KILL'"], "expected a path that begins with", id="no field of events"
        ),
        pytest.param(["audit", "--from", "-1m", "--to", "-2m"], "expected a moment before --to", id="backwards"),
        pytest.param(["nowhere"], "nowhere", id="no such source"),
        pytest.param(["audit", "--from", "soon"], "expected a time", id="no moment"),
        pytest.param(["audit", "--from", "0:1"], "got offsets", id="offsets of a table"),
        pytest.param(["audit", "--sink", "other"], "got 'other'", id="another sink"),
    ],
)
def test_what_cannot_be_read_is_reported(table: Path, arguments: list[str], text: str) -> None:
    code, output = run(*arguments, "--table", table)
    assert (code, text in output) == (2, True), output
