"""What was idle for longer than a policy says is forgotten in a replay when a worker forgets it, and not before."""

from itertools import count
from pathlib import Path

import pytest

from haltline.schemas.control import Command, CommandKind
from haltline.schemas.partitioner import partition_of
from haltline.schemas.policy import Policy
from haltline.streams.incident.bundle import read_bundle, write_bundle
from haltline.streams.incident.check import check
from haltline.streams.incident.collect import collect
from haltline.streams.replay import replay_worker
from haltline.streams.replay.diff import replay_and_compare
from haltline.streams.replay.policies import one
from haltline.streams.replay.replay_worker import Replay
from haltline.streams.replay.table_range import TableRange
from tests.builders import at
from tests.streams.replay.recorded import PARTITIONS, LiveLog, deletes, works

DAY = 86_400


def neighbour(session: str, number: int = 0) -> str:
    """Another session on the same partition."""
    names = (f"{session}-{n}" for n in count(number * 100))
    return next(name for name in names if partition_of(name, PARTITIONS) == partition_of(session, PARTITIONS))


def on_probation(log: LiveLog, session: str) -> LiveLog:
    log.events(works(session, 2))
    for kind, seconds in ((CommandKind.KILL, 30), (CommandKind.RESET, 40)):
        by, name = "ada", f"{session}-{kind.value}"
        log.command(Command(command_id=name, kind=kind, id=session, by=by, reason="enough", time=at(seconds)))
    return log


@pytest.mark.parametrize("busy", [True, False], ids=["its partition went on", "its partition was quiet"])
def test_a_bundle_forgets_the_session_where_its_worker_did_without_the_others_records(
    busy: bool, tmp_path: Path
) -> None:
    log = on_probation(LiveLog(), "s")
    if busy:
        log.events(works(neighbour("s"), 1, begin=1.1 * DAY))
    log.events(deletes("s", *(1.2 * DAY + second for second in (0, 6))))
    collected = collect(TableRange(log.audited(tmp_path / "audit"), log.topics), "s")
    write_bundle(tmp_path / "s.zip", collected.manifest, collected.files)
    bundle = read_bundle(tmp_path / "s.zip")
    assert len(bundle.manifest["passed"]) == int(busy)
    assert (bundle.json("state.json")["events"] <= 4) is busy  # begun anew
    checked = check(bundle)
    assert (checked.ok, checked.replayed.compared.first) == (True, None)
    assert checked.replayed.compared.same >= 2


def test_a_kill_outlives_the_day_and_the_rest_does_not_stay_in_memory() -> None:
    log = LiveLog().events(deletes("s", 0, 6, 12))
    for number in range(20):
        log.events(works(neighbour("s", number), 1, begin=(number + 1) * 1.1 * DAY))
    replay = Replay(one(Policy()), topics=log.topics, partitions=log.partitions)
    for record in log.inputs():
        replay.record(record)
    known = [name for name in (neighbour("s", number) for number in range(20)) if replay.state(name) is not None]
    assert known == [neighbour("s", 19)]
    killed = replay.state("s")
    assert killed is not None
    assert killed["standing"]["killed"]["code"] == "session_killed_loop_guard"


def test_states_that_are_held_as_bytes_decide_as_those_that_are_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_worker, "MAX_LIVE", 0)
    monkeypatch.setattr(replay_worker, "_PUT_AWAY_AT_A_TIME", 0)
    sessions = [deletes(f"s{number}", *range(number, 60, 9)) for number in range(12)]
    log = LiveLog().events(sorted((one for session in sessions for one in session), key=lambda one: one.time))
    found = replay_and_compare(log, one(Policy()), exact=True).compared
    assert (found.ok, found.first) == (True, None)
    assert found.recorded > 24
