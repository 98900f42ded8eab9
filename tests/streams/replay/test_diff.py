"""Replay of a recorded log: the same decisions or the first that differs, without idle states."""

from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path

import orjson
import pytest

from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Decision
from haltline.schemas.partitioner import partition_of
from haltline.schemas.policy import Policy
from haltline.streams.engine.core import SessionState
from haltline.streams.replay import replay_worker
from haltline.streams.replay.choice import Choice
from haltline.streams.replay.diff import Replayed, replay_and_compare
from haltline.streams.replay.policies import one, published
from haltline.streams.replay.records import LogRecord
from haltline.streams.replay.replay_worker import Replay
from haltline.streams.sessions import state_codec
from tests.builders import at, some
from tests.streams.commands import said
from tests.streams.replay.recorded import PARTITIONS, TOPICS, LiveLog, a_night, deletes, works

run = partial(said, "replay")
QUIET = Policy.model_validate({"rules": {"destructive_repeat": {"levels": {"low": "PAUSE"}}}})


def again(log: LiveLog, policy: Policy | None = None, *, exact: bool = False, rules: Sequence[str] = ()) -> Replayed:
    in_force = one(policy) if policy is not None else published(log.policies(), "default")
    return replay_and_compare(log, in_force, Choice(exact=exact, detectors=frozenset(rules)))


def test_the_same_policy_makes_every_decision_again_and_another_diverges() -> None:
    log = a_night()
    found = again(log, exact=True).compared
    assert found.ok
    assert found.recorded == found.replayed == found.same == log.count(TOPICS.interventions) - found.by_clock > 4
    assert (found.outside, found.across) == (0, 0)
    kept = next(k for p, k in log.records.items() if p[0] == TOPICS.interventions and k)
    twice = Decision.model_validate_json(kept[-1].value or b"").model_copy(update={"decided_at": at(1)})
    kept.append(kept[-1]._replace(offset=len(kept), value=twice.to_json()))  # delivered twice
    assert again(log, exact=True).compared.ok
    found = again(a_night(), QUIET).compared
    assert found.first is not None
    assert sorted(found.first_by_session) == ["night-1", "night-2"]
    assert (found.first.session_id, found.first.what) == ("night-1", "changed")
    assert "level" in found.first.fields
    assert "level 'NUDGE' -> 'PAUSE'" in str(found.first)
    assert found.first.time == at(6)


def test_what_operators_and_the_clock_did_and_other_policies_are_part_of_a_replay() -> None:
    log = LiveLog().events(works("s", 3))
    log.command(Command(command_id="k", kind=CommandKind.KILL, id="s", by="ada", reason="enough", time=at(9)))
    log.events(works("s", 3, begin=60))
    for _ in range(6):
        log.tick(60_000)
    kept = log.records[TOPICS.actions, 0]
    kept.append(LogRecord(TOPICS.actions, 0, len(kept), at(500), b"x", b"{"))
    whole = again(log, exact=True)
    assert (whole.compared.ok, whole.compared.by_clock > 0, whole.compared.recorded > 1) == (True, True, True)
    assert whole.unreadable == 1
    log = LiveLog().events(deletes("before", 0, 6, 12))
    log.publish(QUIET.model_copy(update={"version": 2}))
    log.events(deletes("after", 200, 206, 212))
    assert again(log, exact=True).compared.ok
    found = again(log, Policy()).compared
    assert list(found.first_by_session) == ["after"]


def test_a_range_in_time_or_of_a_session_leaves_out_the_rest_and_one_of_nothing_is_not_a_success(table: Path) -> None:
    for choice in (["--from", "2025-06-15T15:08:00Z"], ["--session", "night-2"]):
        code, output = run(table, *choice, "--json")
        document = orjson.loads(output)
        assert (code, document["first_divergence"]) == (0, None)
        assert (document["records"][TOPICS.actions], 0 < document["recorded"] < 8) == (8, True)
    code, output = run(table, "--to", "2025-06-15T15:08:00Z", "--json")
    document = orjson.loads(output)
    assert (code, document["left_out"]["outside"] > 0) == (0, True)
    code, output = run(table, "--session", "night-2", "--dry-run", "--json")
    assert (code, orjson.loads(output)["records"]) == (0, {TOPICS.actions: 8})
    code, output = run(table, "--tool", "delete_asset", "--dry-run")
    assert (code, "18 of haltline.actions" in output, "decided now" in output) == (0, True, False), output
    for choice in (["--session", "nobody"], ["--from", "2030-01-01T00:00:00Z"]):
        code, output = run(table, *choice)
        assert (code, "expected records" in output, "got none" in output) == (1, True, True), output


def test_what_cannot_be_read_is_reported_and_what_began_before_the_range_too(table: Path, tmp_path: Path) -> None:
    for arguments, text in (
        (["audit", "--where", "level == 'KILL'"], "expected a path that begins with"),
        (["audit", "--from", "-1m", "--to", "-2m"], "expected a moment before --to"),
        (["nowhere"], "nowhere"),
        (["audit", "--from", "soon"], "expected a time"),
        (["audit", "--from", "0:1"], "got offsets"),
        (["audit", "--sink", "other"], "got 'other'"),
    ):
        code, output = run(*arguments, "--table", table)
        assert (code, text in output) == (2, True), output
    code, output = run(table, "--where", 'args.id == "night-1" or action == "look_up"', "--json")
    assert (code, orjson.loads(output)["recorded"]) == (0, 0), "no decision has such a field"
    events = [one.model_copy(update={"seq": number}) for number, one in enumerate(deletes("s", 0, 6, 12))]
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(one.to_json() for one in events))
    document = orjson.loads(run(tmp_path / "events.jsonl", "--json")[1])
    assert (document["recorded"], [one["level"] for one in document["decisions"]]) == (0, ["NUDGE", "KILL"])
    begun = LiveLog().events(events).audited(tmp_path / "audit")
    code, output = run(begun, "--from", "2025-06-15T15:06:47Z", "--json")
    assert (code, orjson.loads(output)["begun_before"]) == (1, ["s"])
    assert "1 of these 1 sessions began before the range" in run(begun, "--from", "2025-06-15T15:06:47Z")[1]
    assert orjson.loads(run(begun, "--json")[1])["begun_before"] == []


DAY = 86_400


def neighbour(session: str, number: int = 0) -> str:
    """Another session on the same partition."""
    names = (f"{session}-{n}" for n in count(number * 100))
    return next(name for name in names if partition_of(name, PARTITIONS) == partition_of(session, PARTITIONS))


def state_of(replay: Replay, session: str) -> SessionState | None:
    """The present state of a session, live or put away."""
    key, here = session.encode(), replay._slice(partition_of(session, PARTITIONS))
    found = replay._processor.let_go(key) or here.values.get(key)
    here.values[key] = found or b""
    return state_codec.decode(found) if found else None


def test_a_kill_outlives_the_day_and_states_held_as_bytes_decide_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    log = LiveLog().events(deletes("s", 0, 6, 12))
    for number in range(20):
        log.events(works(neighbour("s", number), 1, begin=(number + 1) * 1.1 * DAY))
    replay = Replay(one(Policy()), topics=log.topics, partitions=log.partitions)
    for record in log.inputs():
        replay.record(record)
    known = [name for name in (neighbour("s", number) for number in range(20)) if state_of(replay, name) is not None]
    assert known == [neighbour("s", 19)]
    assert some(some(state_of(replay, "s")).control.killed).code == "session_killed_loop_guard"
    monkeypatch.setattr(replay_worker, "MAX_LIVE", 0)
    monkeypatch.setattr(replay_worker, "_PUT_AWAY_AT_A_TIME", 0)
    sessions = [deletes(f"s{number}", *range(number, 60, 9)) for number in range(12)]
    log = LiveLog().events(sorted((one for session in sessions for one in session), key=lambda one: one.time))
    found = again(log, Policy(), exact=True).compared
    assert (found.ok, found.first) == (True, None)
    assert found.recorded > 24
