"""Governed and graduated sessions on the real Kafka, with a guard and a worker that dies in the middle."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from haltline.interventions.agent import Guard, Refused
from haltline.interventions.vocabularies import acgp, pipeline
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import Effect
from haltline.schemas.topics import Topics
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.subprocesses import Child, Children
from haltline.streams.local.system import start_worker, wait_until_ready

POLICY = """
rules: {repetition: {enabled: false}, polling: {enabled: false}}
interventions:
  strategies: {destructive_repeat: progressive}
  vocabularies: [{agent: trader, vocabulary: acgp}]
  modifications: [{action: export, rules: [acgp], cap: {limit: 100}}]
  prices: [{action: transfer, usd: 2.5}]
  acgp:
    - agent: trader
      flag_from: critical
      tripwires:
        - {id: export, when: {tool: export}, condition: args.limit > 100, on_fail: {decision: nudge}}
        - {id: large, when: {tool: transfer}, condition: args.amount > 500, on_fail: {decision: block}}
        - {id: huge, when: {tool: transfer}, condition: args.amount > 5000, on_fail: {decision: halt}}
"""


@pytest.mark.kafka
def test_a_governed_session_keeps_its_debt_over_the_death_of_a_worker_and_is_halted_by_a_tripwire(
    kafka: LocalKafka, kafka_topics: Topics, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    options = ["--prefix", kafka_topics.prefix, "--checkpoint-interval", "0.2", "--session-timeout", "6"]
    exported: list[int] = []
    moved: list[float] = []

    def guard() -> Guard:
        return Guard(
            session_id="s1", agent_id="trader", bootstrap=kafka.bootstrap, topic_prefix=kafka_topics.prefix,
            mode="blocking", budget_s=30, start_budget_s=30, fail_closed_from=Effect.READ,
        )  # fmt: skip

    def tools(of: Guard) -> tuple[Callable[[int], None], Callable[[float], None]]:
        @of.tool
        def export(limit: int) -> None:
            exported.append(limit)

        @of.tool
        def transfer(amount: float) -> None:
            moved.append(amount)

        return export, transfer

    def refused(call: Callable[[float], None], amount: float) -> Decision | None:
        with pytest.raises(Refused) as one:
            call(amount)
        return one.value.decision

    with Children(tmp_path) as mortal, Children(tmp_path) as children:

        def work(children: Children, name: str) -> Child:
            worker = start_worker(
                children, kafka.bootstrap, *options, "--policy", str(policy), embedded=False, name=name
            )
            wait_until_ready(children, worker)
            return worker

        first = work(mortal, "w0")
        with guard() as before:
            export, transfer = tools(before)
            export(7000)
            transfer(20)
            blocked = [refused(transfer, 600), refused(transfer, 600)]
        os.kill(first.pid, signal.SIGKILL)
        work(children, "w1")
        with guard() as after:
            export, transfer = tools(after)
            blocked.append(refused(transfer, 600))
            for amount in (9000, 20):
                with pytest.raises(Refused) as killed:  # by the verdict, or by what stands on `control`: what is first
                    transfer(amount)
                assert killed.value.code == "session_killed_acgp"

    assert (exported, moved) == ([100], [20])
    with LogReader(kafka.bootstrap, [kafka_topics.interventions]) as reader:
        decisions = [Decision.model_validate_json(message.value() or b"") for message in reader.to_end()]
    halted = next(d for d in decisions if d.level is Level.KILL and d.incident is not None)
    governed = [(d.level, d.governance) for d in (*blocked, halted) if d is not None]
    assert [level for level, _ in governed] == [Level.BLOCK, Level.BLOCK, Level.BLOCK, Level.KILL]
    debts = [governance.trust_debt for _, governance in governed if governance is not None]
    assert debts[0] < debts[1] < debts[2] < debts[3]
    assert 6 < debts[2] < 7, "what was owed before the worker died is owed still"
    assert (halted.code, acgp.render(halted).intervention, halted.vocabulary) == ("session_killed_acgp", "halt", "acgp")
    assert pipeline.render(halted).result == "stop"
    assert [d.attempt for d in blocked[:3] if d is not None] == [1, 2, 3]
    assert [d.cost_prevented_usd for d in blocked[:3] if d is not None] == [2.5, 0, 0]
    ids = {d.decision_id for d in decisions}
    assert {d.decision_id for d in blocked if d is not None} <= ids, "what the guard obeyed is what the topic holds"
