import json
import os
import signal

import pytest

from haltline.interventions.agent.watch.process_tree import living_below
from haltline.schemas import tools
from haltline.schemas.decisions import Level
from haltline.schemas.events import ActionEvent, Effect, Kind, Outcome
from tests.clients.node_agent import Agent, Raised
from tests.clients.typescript import CLIENT, require_built
from tests.interventions.agent.stand_in import StandIn
from tests.interventions.agent.watch.test_watch import alive
from tests.mock_cluster import MockCluster
from tests.programs import printed
from tests.waiting import wait_until


def intake_of(agent: Agent) -> int:
    (pid,) = living_below(agent.process.pid)
    return pid


def test_the_intake_is_started_again_three_times_a_minute_is_shared_and_ends_with_the_last_session() -> None:
    with Agent() as agent:
        for _ in range(3):
            os.kill(intake_of(agent), signal.SIGKILL)
            assert agent("call", "write_asset", {}) == "executed"
        os.kill(intake_of(agent), signal.SIGKILL)
        assert [agent("call", name, {}) for name in ("get_asset", "write_asset")] == ["executed", "no_verdict"]
        said = [one.rpartition("; ")[2] for one in agent("warnings") if "agent has ended" in one]
        assert said[:4] == ["it is started again"] * 3 + ["it is not started again"]
        agent("end")
        agent("open")
        agent("subagent", "below")
        assert agent("call", "write_asset", {}) == "executed", "a new session has an intake of its own"
        agent("end")
        assert agent("call", "get_asset", {}, "below") == "executed", "another session still needs it"
        agent("end", "below")
        assert living_below(agent.process.pid) == []


def test_the_intake_ends_with_a_process_that_is_killed() -> None:
    agent = Agent()
    agent("open")
    pid = intake_of(agent)
    agent.process.kill()
    agent.stop()
    wait_until(lambda: not alive(pid), "the intake has ended", deadline_s=60)


def test_what_cannot_be_started_is_said() -> None:
    for options, said in (
        ({"command": ["no-such-haltline"]}, r"command line, got none .*pip install 'haltline\[intake\]'"),
        ({"policy": "/no/policy.yaml"}, "no/policy.yaml"),
        ({"rules": {"budget": 1}}, "budget"),
    ):
        agent = Agent(**options)
        with pytest.raises(Raised, match=said):
            agent("open")
        agent.stop()


def test_over_kafka_workers_decide_and_the_rules_of_the_author_hold(cluster: MockCluster) -> None:
    def say(event: ActionEvent) -> Level:
        return Level.BLOCK if event.action == "delete_asset" else Level.ALLOW

    rules = {"denied_actions": ["drop_*"]}
    with StandIn(cluster.bootstrap, say) as worker:
        with Agent(bootstrap=cluster.bootstrap, mode="blocking", sessionId="s1", rules=rules) as agent:
            codes = [agent("call", name, {}) for name in ("get_asset", "drop_view", "delete_asset")]
            assert codes == ["executed", "denied_action", "block"]
        wait_until(lambda: worker.of(Kind.SESSION_ENDED), "the events have arrived")
    ends = [(event.action, event.outcome) for event in worker.of(Kind.COMPLETED)]
    assert ends == [
        ("get_asset", Outcome.OK),
        ("drop_view", Outcome.REFUSED),
        ("delete_asset", Outcome.REFUSED),
    ]


def test_what_reads_is_what_python_says() -> None:
    read = "import { DESTROYS, READS } from './dist/reads.js'; console.log(JSON.stringify([READS, DESTROYS]))"
    known = json.loads(printed(require_built(), "--input-type=module", "--eval", read, cwd=CLIENT))
    assert known == [list(tools.certain(effect)) for effect in (Effect.READ, Effect.DESTRUCTIVE)]
