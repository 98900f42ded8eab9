"""Records that end every worker that decides them, on a real Kafka with real processes."""

import itertools
from pathlib import Path

import pytest

from benchmarks.chaos import poison
from benchmarks.chaos.poisoned import Poisoned
from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.topics import Topics
from haltline.schemas.wire import decode
from haltline.streams.kafka.log_record import headers_of
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.subprocesses import Child, Children
from tests.streams.broker_log import Log
from tests.streams.sessions.bench import SESSION, delete
from tests.waiting import wait_until

BAD = {"hangs": "no decision within 6 s", "kills": "killed by SIGSEGV"}


@pytest.mark.wide  # a minute of deadlines; the simulator has such records, and so have test_trial.py and test_poison.py
def test_records_that_hang_or_kill_are_passed_over_and_the_session_goes_on(
    kafka: LocalKafka, kafka_topics: Topics, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    site, policy = tmp_path / "site", tmp_path / "policy.yaml"
    environment = poison.install(site)
    policy.write_text(f"rules:\n  {Poisoned.id}: {{}}\n")
    log = Log(kafka.bootstrap)
    request.addfinalizer(log.close)
    numbers, workers = itertools.count(), list[Child]()

    def supervise() -> None:
        if not workers or workers[-1].exit_code is not None:
            options = ["--bootstrap", kafka.bootstrap, "--prefix", kafka_topics.prefix, "--policy", str(policy)]
            options += ["--session-timeout", "6", "--instance-id", "w", "--metrics-port", "0"]
            name = f"worker-{next(numbers)}"
            workers.append(children.start_module(name, "haltline.cli", ["worker", *options], must_run=False))

    def killed() -> bool:
        supervise()
        told = [decode(Decision, message.value()) for message in log.records(kafka_topics.interventions)]
        return any(decision.level is Level.KILL for decision in told)

    for number, action in enumerate([None, *BAD, None, None]):
        event = delete(6 * number, **({} if action is None else {"action": action}))
        produce_confirmed(kafka.bootstrap, kafka_topics.actions, key=SESSION.encode(), value=event)
    with Children(tmp_path, env=environment) as children:
        wait_until(killed, "the session is judged by the events behind", deadline_s=240)
        assert workers[-1].stop(within_s=60) == 0, workers[-1].last_lines(50)
    letters = [
        DeadLetter.from_record(message.key(), message.value(), headers_of(message))
        for message in log.records(kafka_topics.dead_letter)
    ]
    assert [(letter.offset, letter.detail) for letter in letters] == list(enumerate(BAD.values(), start=1))
    assert {letter.reason for letter in letters} == {BadRecord.ENDED_WORKER}
    ended = workers[0].log_file.read_text()
    assert "Timeout (0:00:12)" in ended  # with the place in the code
    assert "in observe" in ended
