import os
import signal

import pytest

from haltline.interventions.agent.watch.process_tree import living_below
from tests.clients.kafka_agent import Agent, Raised
from tests.interventions.agent.watch.test_watch import alive
from tests.waiting import wait_until


def intake_of(agent: Agent) -> int:
    (pid,) = living_below(agent.process.pid)
    return pid


def test_the_intake_is_shared_dies_once_without_harm_and_ends_with_the_last_session() -> None:
    with Agent(None) as agent:
        assert agent.attempts(1) == ["executed"]
        agent("subagent", "below")
        assert agent("call", "get_asset", {}, None, "below") == "executed"
        pid = intake_of(agent)
        os.kill(pid, signal.SIGKILL)
        assert agent.attempts(1, "get_asset") == ["executed"]
        again = intake_of(agent)
        assert again != pid
        (said,) = agent("about")["warnings"]
        assert said.endswith("it is started again")
        agent("end")
        assert agent("call", "get_asset", {}, None, "below") == "executed", "another session still needs it"
        agent("end", "below")
        assert living_below(agent.process.pid) == []


def test_the_intake_ends_with_a_process_that_is_killed() -> None:
    agent = Agent(None)
    agent("local")
    pid = intake_of(agent)
    agent.process.kill()
    agent.stop()
    wait_until(lambda: not alive(pid), "the intake has ended", deadline_s=60)


def test_what_cannot_be_started_is_said() -> None:
    for options, said in (
        (
            {"command": ["no-such-haltline"]},
            r"expected haltline's command line, got none .*pip install 'haltline\[intake\]'",
        ),
        ({"policy": "/no/policy.yaml"}, "no/policy.yaml"),
        ({"rules": {"budget": 1}}, "budget"),
    ):
        agent = Agent(None, **options)
        with pytest.raises(Raised, match=said):
            agent("local")
        agent.stop()
