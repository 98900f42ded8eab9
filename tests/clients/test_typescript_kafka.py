import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from haltline.cli.app import app
from haltline.interventions.agent import Guard
from haltline.schemas.decisions import ApprovalState, Decision, Level, ScopeKind
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.keys import make_keys
from haltline.schemas.partitioner import partition_of
from haltline.schemas.seals import Sealer
from haltline.schemas.topics import SETS_KEY, Topics
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.subprocesses import Children
from haltline.streams.local.system import start_worker, wait_until_ready
from tests.builders import some
from tests.clients.kafka_agent import Agent, Raised
from tests.clients.kafkajs import require_kafkajs
from tests.clients.typescript import CLIENT, require_built
from tests.grown_topics import GROWN
from tests.interventions.agent.attempts import KILLED, about_approval, attempt
from tests.interventions.agent.stand_in import PARTITIONS, StandIn, standing
from tests.programs import printed
from tests.waiting import wait_until

LOOP_HINT = (
    "You have already done this to asset_id=fact_sales and are about to do it again. "
    "Check the result of the earlier attempt first; "
    "if it did not work, repeating it will not help. Report it instead."
)
SECRET = "ghp_" + "a1B2" * 9
ARGS = {"asset_id": "fact_sales"}


@pytest.fixture
def worker(embedded: EmbeddedBroker) -> Iterator[StandIn]:
    with StandIn(embedded.bootstrap) as stand_in:
        yield stand_in


def test_events_are_where_pythons_are_and_hold_no_secret(embedded: EmbeddedBroker, worker: StandIn) -> None:
    call = {"asset_id": "fact_sales", "password": "hunter2-hunter2", "note": f"use {SECRET}"}
    for session in ("s1", "n2", "n3"):
        with Agent(embedded.bootstrap, sessionId=session, mode="blocking", goal=f"with {SECRET}") as agent:
            allowed = agent("before", "get_asset", call, {"targets": [f"key={SECRET}"]})
            agent("after", allowed["callId"], f"it says {SECRET}", None)
            failed = agent("before", "get_asset", call)
            agent("after", failed["callId"], None, f"cannot use {SECRET}")
            agent("turn", {"inputTokens": 1}, f"I use {SECRET}")
        with Guard(session_id=session, bootstrap=embedded.bootstrap, agent_id="cleaner", budget_s=20) as guard:
            guard.model_turn()
            attempt(guard, args=call)
    wait_until(lambda: len(worker.of(Kind.SESSION_ENDED)) == 6, "both clients' events have arrived")
    places: dict[bytes, set[int]] = {}
    with LogReader(embedded.bootstrap, [Topics().actions, Topics().feedback]) as reader:
        for message in reader.to_end():
            places.setdefault(message.key() or b"", set()).add(message.partition() or 0)
            assert b"hunter2" not in (message.value() or b"")
            assert SECRET[4:].encode() not in (message.value() or b"")
    assert {len(partitions) for partitions in places.values()} == {1}
    digests = {event.args_digest for event in worker.events if event.action == "get_asset"}
    assert len(digests) == 1, "the same call has the same digest in both"


def test_topics_that_an_earlier_release_has_grown_are_refused_by_the_name_of_those_in_use(
    embedded: EmbeddedBroker,
) -> None:
    produce_confirmed(embedded.bootstrap, Topics().control, key=SETS_KEY, value=GROWN)
    with Agent(embedded.bootstrap, mode="blocking") as agent:
        assert agent.attempts(1) == ["no_verdict"]
        assert any("set topicPrefix haltline.2." in one for one in agent("about")["warnings"])


def test_a_call_that_needs_approval_waits_for_the_person(embedded: EmbeddedBroker) -> None:
    asked: list[Decision] = []

    def say(event: ActionEvent) -> Decision:
        asked.append(about_approval(event, ApprovalState.PENDING, Level.PAUSE, request_id=f"r-{event.event_id}"))
        return asked[-1]

    def answer(worker: StandIn, state: ApprovalState, level: Level) -> None:
        request = some(asked[-1].approval)
        told = {"decision_id": f"{state}", "level": level, "approval": request.model_copy(update={"state": state})}
        worker.send(asked[-1].model_copy(update=told | {"code": f"approval_{state}"}))

    with StandIn(embedded.bootstrap, say) as worker, Agent(embedded.bootstrap, mode="blocking") as agent:
        for state, level in ((ApprovalState.APPROVED, Level.ALLOW), (ApprovalState.REJECTED, Level.BLOCK)):
            asked.clear()
            agent.ask("before", "delete_asset", ARGS)
            wait_until(lambda: asked, "the call waits for a person")
            answer(worker, state, level)
            verdict = agent.answer()
            assert verdict["allowed"] is (state is ApprovalState.APPROVED)
        assert verdict["code"] == "approval_rejected"
        assert verdict["approval"]["requestId"] == f"r-{worker.of(Kind.PROPOSED)[-1].event_id}"
    with StandIn(embedded.bootstrap, say), Agent(embedded.bootstrap, mode="blocking", approvalWaitS=0.2) as agent:
        assert agent("before", "delete_asset", ARGS)["code"] == "approval_pending"


def test_only_what_a_worker_has_sealed_counts(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    public = make_keys(tmp_path / "worker")
    make_keys(tmp_path / "forger")
    forger = Sealer(tmp_path / "forger")
    sealer, bootstrap = Sealer(tmp_path / "worker"), embedded.bootstrap
    options = {"mode": "blocking", "verifyKey": str(public), "budgetS": 2, "firstBudgetS": 20}
    with StandIn(bootstrap, sealer=sealer) as worker, Agent(bootstrap, **options) as agent:
        assert agent.attempts(1) == ["executed"]
        worker.sealer = forger
        assert agent.attempts(1) == ["no_verdict"]
        worker.control(standing(ScopeKind.TOOL, "run"))
        wait_until(lambda: agent.attempts(1, "run") == ["control_entry_not_sealed"], "it holds as frozen")
        assert any("is not of a worker" in one for one in agent("about")["warnings"])


def test_what_cannot_work_is_said(embedded: EmbeddedBroker) -> None:
    for options, said in (
        ({"mode": "local"}, "got local; for local use haltline's localSession"),
        ({"bootstrap": ""}, r"bootstrap: expected Kafka's address \(host:port\), got none"),
        ({"policy": "policy.yaml"}, "policy: expected none over Kafka, got one: the workers decide by theirs"),
        ({"rules": {"budget": 1}}, "rules: expected one of session_budget, .*, got .budget"),
        ({"checkpoints": {}}, r"checkpoints: expected an object with keep\(id\) and restore\(id\), got another"),
        ({"spoolDir": "/dev/null/spool"}, "not a directory, mkdir '/dev/null/spool'"),
        ({"budgetS": 0}, "budgetS: expected more than 0 to 86400, got 0"),
        ({"failClosedFrom": "all"}, "failClosedFrom: expected one of read, poll"),
        ({"verifyKey": "/nowhere"}, "verifyKey: expected files of public keys"),
        ({"kafka": {"no.such.setting": 1}}, "no.such.setting"),
    ):
        agent = Agent(**({"bootstrap": embedded.bootstrap} | options))
        with pytest.raises(Raised, match=said):
            agent("create")
        agent.stop()
    with Agent(embedded.bootstrap, mode="blocking") as agent:
        assert agent("before", "get_asset", ARGS, {"mode": "local"})["code"] == "not_checked"


@pytest.mark.kafka
def test_on_a_real_kafka_worker_and_operators_stop_it(kafka: LocalKafka, kafka_topics: Topics, tmp_path: Path) -> None:
    prefix = ["--prefix", kafka_topics.prefix]
    options = {"topicPrefix": kafka_topics.prefix, "mode": "blocking", "fetchWaitMs": 100}

    def operator(*words: str) -> None:
        command = [*words, "--reason", "seen enough", "--by", "ada", "--bootstrap", kafka.bootstrap, *prefix]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output

    with Children(tmp_path) as children:
        quick = ["--checkpoint-interval", "0.2", "--session-timeout", "6"]
        wait_until_ready(children, start_worker(children, kafka.bootstrap, *prefix, *quick, embedded=False))
        environ = {"HALTLINE_BOOTSTRAP": kafka.bootstrap, "HALTLINE_PREFIX": kafka_topics.prefix}
        environ["NODE_PATH"] = str(require_kafkajs())
        output = printed(require_built(), "examples/kafka_agent.mjs", "s1", cwd=CLIENT, env=os.environ | environ)
        turns = [f"turn {number}: fact_sales still exists" for number in (1, 2)]
        assert output.splitlines() == [*turns, "", LOOP_HINT, f"stopped: {KILLED}"]
        with Agent(kafka.bootstrap, sessionId="s2", agentId="other", **options) as agent:
            assert agent.attempts(1, "run") == ["executed"]
            operator("freeze", "--scope", "agent", "other")
            wait_until(lambda: agent.attempts(1, "run") == ["agent_frozen_by_operator"], "it is frozen")
            operator("lift", "--scope", "agent", "other")
            wait_until(lambda: agent.attempts(1, "run") == ["executed"], "it is lifted")
            operator("kill", "s2")
            wait_until(lambda: agent.attempts(1, "run") == ["session_killed_by_operator"], "it is killed")
        with Guard(session_id="s2", bootstrap=kafka.bootstrap, topic_prefix=kafka_topics.prefix) as guard:
            guard.model_turn()
    with LogReader(kafka.bootstrap, [kafka_topics.actions]) as reader:
        places = {(message.key(), message.partition()) for message in reader.to_end()}
    assert places == {(key, partition_of(key.decode(), PARTITIONS)) for key in (b"s1", b"s2")}
