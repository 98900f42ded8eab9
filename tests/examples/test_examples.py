"""Every example runs, with the real library and a scripted model, and is stopped."""

import subprocess
import sys
from pathlib import Path

import pytest

from haltline.schemas.decisions import Level, ScopeKind
from haltline.schemas.events import Kind, Outcome
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.interventions.agent.stand_in import StandIn, standing, third_delete_kills
from tests.waiting import wait_until

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize(
    ("example", "stopped"),
    [
        ("langchain_agent.py", "stopped: session_killed_loop_guard"),
        ("openai_agents_agent.py", "stopped: ToolInputGuardrailTripwireTriggered"),
    ],
)
def test_the_agent_is_stopped_at_its_third_delete(embedded: EmbeddedBroker, example: str, stopped: str) -> None:
    with StandIn(embedded.bootstrap, third_delete_kills()) as worker:
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / example), embedded.bootstrap], capture_output=True, text=True, check=False
        )
        assert done.stdout.splitlines() == ["deleted fact_sales", "deleted fact_sales", stopped], done.stderr
        wait_until(lambda: worker.of(Kind.SESSION_ENDED), "the session has ended")
        assert [(e.call_id, e.outcome) for e in worker.of(Kind.COMPLETED)] == [
            ("c0" if example.startswith("lang") else "c1", Outcome.OK),
            ("c1" if example.startswith("lang") else "c2", Outcome.OK),
            ("c2" if example.startswith("lang") else "c3", Outcome.REFUSED),
        ]
        assert len(worker.of(Kind.MODEL_TURN)) == 3
        assert {e.await_verdict for e in worker.of(Kind.PROPOSED)} == {True}
        assert Level.KILL.value in {f.decision_id.split("-")[0] for f in worker.feedback}


def test_an_agent_behind_the_proxy_of_mcp_is_stopped_at_its_third_delete(embedded: EmbeddedBroker) -> None:
    with StandIn(embedded.bootstrap, third_delete_kills()) as worker:
        command = [sys.executable, str(EXAMPLES / "mcp_agent.py"), embedded.bootstrap]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        result = ["fact_sales still exists", "fact_sales still exists", "stopped: session_killed_loop_guard"]
        assert done.stdout.splitlines() == result, done.stderr
        wait_until(lambda: worker.of(Kind.SESSION_ENDED), "the session has ended")
        assert worker.outcomes() == [Outcome.OK, Outcome.OK, Outcome.REFUSED]


def test_an_agent_that_writes_spans_is_seen_and_stopped_between_two_steps(embedded: EmbeddedBroker) -> None:
    with StandIn(embedded.bootstrap) as worker:
        command = [sys.executable, str(EXAMPLES / "opentelemetry_agent.py"), embedded.bootstrap]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as agent:
            wait_until(lambda: len(worker.of(Kind.COMPLETED)) >= 3, "it has deleted three times")
            (session_id,) = {e.session_id for e in worker.events}
            worker.control(standing(ScopeKind.SESSION, session_id))
            result, _ = agent.communicate(timeout=60)
        assert result.splitlines()[-1] == "stopped: session_killed_loop_guard"
        assert len(result.splitlines()) < 1000
        assert {(e.action, e.outcome) for e in worker.of(Kind.COMPLETED)} == {("delete_asset", Outcome.OK)}
