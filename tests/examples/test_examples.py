"""Every example runs, with the real library and a scripted model, and is stopped."""

import subprocess
import sys
from pathlib import Path

import pytest

from haltline.schemas.decisions import Level
from haltline.schemas.events import Kind, Outcome
from haltline.streams.broker import EmbeddedBroker
from tests.interventions.agent.stand_in import StandIn, third_delete_kills
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
