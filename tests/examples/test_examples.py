"""Every example runs, with the real library and a scripted model, and is stopped."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from haltline.schemas.decisions import Level, ScopeKind
from haltline.schemas.events import Kind, Outcome
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.conformance.environments import PACKAGES, python_of, require_environment
from tests.interventions.agent.stand_in import StandIn, standing, third_delete_kills
from tests.waiting import wait_until

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PACKAGE = PACKAGES["typescript"]

KILLED = "stopped: session_killed_loop_guard"


@pytest.mark.parametrize(
    ("example", "adapter", "stopped"),
    [
        ("langchain_agent.py", "langchain", KILLED),
        ("openai_agents_agent.py", "openai-agents", "stopped: ToolInputGuardrailTripwireTriggered"),
        ("pydantic_ai_agent.py", "pydantic-ai", KILLED),
        ("strands_agent.py", "strands", KILLED),
        ("smolagents_agent.py", "smolagents", KILLED),
        ("llama_index_agent.py", "llama-index", KILLED),
        ("dspy_agent.py", "dspy", KILLED),
        ("ag2_agent.py", "ag2", KILLED),
        ("agent_framework_agent.py", "agent-framework", KILLED),
        ("google_adk_agent.py", "google-adk", KILLED),
        ("crewai_agent.py", "crewai", KILLED),
        ("claude_agent_sdk_agent.py", "claude-agent-sdk", KILLED),
        ("agent_hooks_agent.py", "agent-hooks", KILLED),
    ],
)
def test_the_agent_is_stopped_at_its_third_delete(
    embedded: EmbeddedBroker, example: str, adapter: str, stopped: str
) -> None:
    require_environment(adapter)
    with StandIn(embedded.bootstrap, third_delete_kills()) as worker:
        command = [str(python_of(adapter)), str(EXAMPLES / example), embedded.bootstrap]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        printed = [line for line in done.stdout.splitlines() if line.startswith(("deleted", "stopped"))]
        assert printed == ["deleted fact_sales", "deleted fact_sales", stopped], done.stderr
        wait_until(lambda: worker.of(Kind.SESSION_ENDED), "the session has ended")
        assert worker.outcomes() == [Outcome.OK, Outcome.OK, Outcome.REFUSED]
        assert {e.await_verdict for e in worker.of(Kind.PROPOSED)} == {True}
        assert Level.KILL.value in {f.decision_id.split("-")[0] for f in worker.feedback}


@pytest.mark.parametrize("example", ["vercel_agent.mjs", "mastra_agent.mjs"])
def test_the_agent_in_javascript_is_stopped_at_its_third_delete_without_a_broker(example: str) -> None:
    require_environment("typescript")
    command = [sys.executable, "-m", "haltline.cli", "intake", "--mode", "local", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as intake:
        assert intake.stdout is not None
        agent = ["node", f"examples/{example}", intake.stdout.readline().strip()]
        done = subprocess.run(agent, cwd=PACKAGE, capture_output=True, text=True, check=False, timeout=120)
        intake.send_signal(signal.SIGTERM)
    assert done.stdout.splitlines() == ["deleted fact_sales", "deleted fact_sales", KILLED], done.stderr
    assert (done.returncode, intake.returncode) == (0, 0)


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
