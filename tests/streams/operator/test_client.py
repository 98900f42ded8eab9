from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from haltline.schemas.control import CommandKind, ControlState, Feedback, Stage
from haltline.schemas.decisions import Decision, Level, ScopeKind
from haltline.schemas.topics import Topics
from haltline.streams.kafka.log_reader import LogReader, NoSuchTopic
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.operator.client import Operator
from haltline.streams.operator.command_factory import NotAllowed
from haltline.streams.operator.ids import Ambiguous, NotFound, resolve
from tests.streams.running import running_worker
from tests.waiting import wait_until

TOPICS = Topics()
SESSION = ScopeKind.SESSION
KILL, RESET = CommandKind.KILL, CommandKind.RESET


@pytest.fixture
def operator(system: str) -> Operator:
    return Operator(system, answer_within_s=30.0)


def send(bootstrap: str, topic: str, key: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    producer.produce(topic, key=key, value=value)
    assert producer.flush(10) == 0


def commands(bootstrap: str, key: str) -> list[bytes | None]:
    with LogReader(bootstrap, [TOPICS.commands]) as reader:
        return [message.value() for message in reader.to_end() if message.key() == key.encode()]


def a_decision(decision_id: str, session_id: str, detector: str = "destructive_repeat") -> Decision:
    return Decision(
        decision_id=decision_id, session_id=session_id, event_id="e1", time=1_790_000_000_000, level=Level.BLOCK,
        code="loop_detected", reason="3 deletes", detector=detector,
    )  # fmt: skip


def test_a_kill_stands_with_who_and_why_a_second_one_leaves_it_and_the_agents_side_is_waited_for(
    operator: Operator, system: str
) -> None:
    first = operator.command(KILL, SESSION, "kill-1", by="ada", reason="deletes the wrong schema")
    assert (first.answered, first.before) == (True, None)
    (standing,) = [record for record in operator.standing() if record.id == "kill-1"]
    assert standing == first.after
    assert (standing.state, standing.by, standing.reason) == (ControlState.KILLED, "ada", "deletes the wrong schema")
    assert (standing.stopped_at, standing.unheard) == (None, True), "nobody is waited for of whom nothing was received"
    second = operator.command(KILL, SESSION, "kill-1", by="bob", reason="second")
    assert (second.answered, second.before) == (True, first.after)
    assert second.after is not None
    assert (second.after.decision_id, second.after.by, second.after.reason, second.after.since) == (
        standing.decision_id, "ada", "deletes the wrong schema", standing.since,
    )  # fmt: skip
    killed = operator.command(KILL, SESSION, "stop-1", by="ada", reason="loops").after
    assert killed is not None
    assert killed.decided_at is not None
    stopped = Feedback(
        feedback_id="f1", decision_id=killed.decision_id, session_id="stop-1", stage=Stage.STOPPED,
        time=killed.decided_at + 7, decided_at=killed.decided_at,
    )  # fmt: skip
    send(system, TOPICS.feedback, "stop-1", stopped.to_json())
    answer = operator.command(KILL, SESSION, "stop-1", by="ada", reason="loops", until_stopped=True)
    assert answer.answered
    assert answer.after is not None
    assert answer.after.time_to_stop_ms == 7


def test_a_label_finds_the_session_of_its_decision(system: str, operator: Operator) -> None:
    send(system, TOPICS.interventions, "label-1", a_decision("d-label-1", "label-1").to_json())
    answer = operator.label(operator.decision("d-label"), "false_alarm", by="ada", reason="was the nightly clean-up")
    assert answer.answered
    with pytest.raises(NotFound, match="decision not found: d-none"):
        operator.decision("d-none")
    killed = operator.command(KILL, SESSION, "label-2", by="ada", reason="loops").after
    assert killed is not None
    with pytest.raises(NotAllowed, match=r"expected the decision of a rule.*haltline missed label-2 --rule RULE"):
        operator.label(operator.decision(killed.decision_id[:16]), "confirmed", by="ada", reason="checked")
    assert len(commands(system, "label-2")) == 1, "no label was sent"
    command = answer.command
    assert (command.id, command.decision_id, command.label) == ("label-1", "d-label-1", "false_alarm")


def test_what_may_not_be_commanded_is_refused_and_never_sent(system: str, operator: Operator) -> None:
    by_ada: dict[str, Any] = {"by": "ada", "reason": "loops"}
    too_long = timedelta(hours=8, seconds=1)
    refused: dict[str, Callable[[], object]] = {
        "reason: expected a text that says it, got '  '": lambda: operator.command(
            RESET, SESSION, "never", by="ada", reason="  "
        ),
        "by: expected a text": lambda: operator.command(KILL, SESSION, "never", by="", reason="loops"),
        "id: expected a text": lambda: operator.command(KILL, SESSION, "", **by_ada),
        r"expected the id \* with the scope fleet": lambda: operator.command(KILL, ScopeKind.FLEET, "never", **by_ada),
        "expected it to last up to 8:00:00, got 8:00:01": lambda: operator.declare_batch(
            "never", max_deletes=1, lasts=too_long, **by_ada
        ),
        "expected one of confirmed, false_alarm": lambda: operator.label(a_decision("d1", "never"), "no", **by_ada),
    }
    for says, command in refused.items():
        with pytest.raises(NotAllowed, match=says):
            command()
    assert commands(system, "never") == []


def test_without_a_worker_the_command_is_kept_and_carried_out_later(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    hasty = Operator(embedded.bootstrap, answer_within_s=0.5)
    assert not hasty.command(KILL, SESSION, "later", by="ada", reason="loops").answered
    assert not hasty.declare_batch(
        "later", max_deletes=1, lasts=timedelta(hours=1), by="ada", reason="clean-up"
    ).answered
    assert len(commands(embedded.bootstrap, "later")) == 2
    assert sum(partition.lag_records for partition in hasty.lag()) == 2
    assert hasty.standing() == []
    with pytest.raises(NoSuchTopic, match=r"topic other\.control: expected one that is there"):
        Operator(embedded.bootstrap, topics=Topics("other.")).standing()
    with running_worker(embedded.bootstrap, tmp_path):
        wait_until(lambda: [record.id for record in hasty.standing()] == ["later"], "the kill stands")


IDS = ("night", "night-7", "night-8", "day-1")


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        pytest.param(
            "n", Ambiguous, "session n: .* of one id: night, night-7, night-8$", id="the beginning of several"
        ),
        pytest.param("noon", NotFound, "session not found: noon; try another$", id="the beginning of none"),
        pytest.param("NIGHT-7", NotFound, "session not found: NIGHT-7", id="in other letters"),
        pytest.param("", NotFound, "session not found: ", id="nothing is the beginning of nothing"),
    ],
)
def test_what_is_not_found_is_reported(given: str, error: type[Exception], says: str) -> None:
    assert resolve("session", "night", IDS) == "night", "a whole id may also be the beginning of others"
    with pytest.raises(error, match=says):
        resolve("session", given, IDS, hint="try another")
