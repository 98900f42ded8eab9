"""docs/gateways.md unchanged: its configuration, its command lines and its agent, with LiteLLM's real proxy."""

import subprocess
from collections.abc import Iterator

import pytest

from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.schemas.topics import Topics
from tests.conformance.environments import python_of, require_environment
from tests.interventions.agent.stand_in import StandIn, decision, third_delete_kills
from tests.mock_cluster import QuickBroker
from tests.streams.litellm_proxy import TOOLS, Gateway, block
from tests.waiting import wait_until

pytestmark = pytest.mark.wide  # it needs an environment of its own
AGENT = "default_user_id"  # LiteLLM's user of its master key
System = tuple[Gateway, StandIn]


def say(event: ActionEvent) -> Decision | Level | None:
    level = by_deletes(event)
    return decision(Level.KILL, event).model_copy(update={"message": STOPPED}) if level is Level.KILL else level


by_deletes = third_delete_kills()
STOPPED = block("console").partition("stopped: ")[2].rstrip()  # as the worker's


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    require_environment("litellm")
    folder = tmp_path_factory.mktemp("gateway")
    with QuickBroker() as broker:
        broker.ensure_topics(Topics())
        with StandIn(broker.bootstrap, say) as worker, Gateway(folder, broker.bootstrap) as gateway:
            yield gateway, worker


def used_once(system: System, session_id: str, turns: int) -> None:
    """Each turn is counted once, also one whose response was blocked."""
    gateway, worker = system
    wait_until(lambda: len(worker.of(Kind.MODEL_TURN, session_id)) >= turns, "the usage of its turns is there")
    after = f"after-{session_id}"  # shows that no other is under way
    assert gateway.ask(after)[0] == 200
    wait_until(lambda: worker.of(Kind.MODEL_TURN, after), "a later turn's usage is there")
    found = worker.of(Kind.MODEL_TURN, session_id)
    assert len({turn.event_id for turn in found}) == len(found) == turns
    for turn in found:
        assert turn.usage is not None
        assert (turn.usage.input_tokens, turn.usage.output_tokens, turn.usage.cache_read_tokens) == (60, 20, 40)
        assert turn.usage.cost_usd > 0


def test_the_page_s_agent_is_stopped_at_its_third_delete(system: System) -> None:
    gateway, worker = system
    file = gateway.folder / "agent.py"
    file.write_text(block("python", "import json"), encoding="utf-8")
    words = [str(python_of("litellm")), str(file)]
    done = subprocess.run(words, env=gateway.environ, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == block("console").removeprefix("$ python agent.py\n"), done.stderr
    wait_until(lambda: len(worker.of(Kind.MODEL_TURN, "night-7")) >= 3, "its turns are there")
    wait_until(lambda: len(worker.outcomes("night-7")) >= 3, "the results of its calls are there")
    turns, calls = worker.of(Kind.MODEL_TURN, "night-7"), worker.of(Kind.PROPOSED, "night-7")
    assert {event.agent_id for event in (*turns, *calls)} == {AGENT}
    assert [(call.action, call.args) for call in calls] == [("delete_asset", {"asset_id": "fact_sales"})] * 3
    assert worker.outcomes("night-7") == [Outcome.OK, Outcome.OK, Outcome.REFUSED]
    assert worker.of(Kind.COMPLETED, "night-7")[0].output_head == "fact_sales still exists"
    used_once(system, "night-7", 3)


def test_without_the_intake_no_turn_is_made(system: System) -> None:
    gateway, _ = system
    gateway.stop_intake()
    try:
        status, text = gateway.ask("away-1", tools=TOOLS)
        assert (status >= 400, "Generic Guardrail API failed" in text) == (True, True), text
        assert gateway.model.asked_with("away-1") == 0
    finally:
        gateway.start_intake()
    assert gateway.ask("away-1")[0] == 200
