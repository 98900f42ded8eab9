"""Agent Sentinel's own SDK, unchanged, against the API: only its platform's address is ours."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from agent_sentinel.intervention import InterventionOutcome, InterventionTracker, InterventionType
from agent_sentinel.kill_switch import KillSwitchClient
from agent_sentinel.sync import BackgroundSync, SyncConfig
from fastapi.testclient import TestClient

from haltline.console.access.keys import Role
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import ScopeKind
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.builders import at
from tests.console.serving import KEYS, serving
from tests.console.topics import messages_of, produce
from tests.waiting import wait_until


@pytest.fixture
def platform(embedded: EmbeddedBroker, tmp_path: Path) -> Iterator[tuple[str, TestClient]]:
    """The API on a port, and a client of the same application that looks at it as an admin."""
    with serving(embedded.bootstrap, tmp_path / "model.db") as looking:
        listening = socket.create_server(("127.0.0.1", 0))
        # The application is started already: by the client.
        server = uvicorn.Server(uvicorn.Config(looking.app, lifespan="off", log_level="warning"))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", looking
        finally:
            server.should_exit = True
            thread.join()


def test_what_the_sdk_prevented_is_listed_once(platform: tuple[str, TestClient], tmp_path: Path) -> None:
    url, looking = platform
    InterventionTracker.initialize(str(tmp_path / "interventions.jsonl"))
    for number in range(3):
        InterventionTracker.record(
            InterventionType.BUDGET_EXCEEDED,
            InterventionOutcome.BLOCKED,
            "train_model",
            action_description="Train on everything",
            run_id=f"run-{number}",
            policy_name="Cost control",
            estimated_cost=25.0,
            risk_level="high",
            blast_radius={"gpu_hours": 40},
            original_inputs={"size": "xl"},
        )
    sent = BackgroundSync(SyncConfig(platform_url=url, api_token=KEYS[Role.AGENT], agent_id="trainer"))
    sent.flush_now()
    page = looking.get("/api/v1/interventions", params={"type": "budget_exceeded"}).json()
    assert page["total"] == 3
    one = page["interventions"][0]
    assert (one["agent_id"], one["policy_name"], one["cost_prevented_usd"]) == ("trainer", "Cost control", 25.0)
    assert (one["description"], one["blast_radius"]) == ("Train on everything", '{"gpu_hours": 40}')
    assert looking.get("/api/v1/interventions/stats").json()["cost_prevented_usd"] == 75.0


def test_the_sdk_hears_of_a_kill(platform: tuple[str, TestClient], embedded: EmbeddedBroker) -> None:
    url, _ = platform
    KillSwitchClient.configure(url, KEYS[Role.AGENT], cache_ttl=0.0)
    assert not KillSwitchClient.is_killed("agent", "cleaner", fail_closed=True)
    kill = Command(
        command_id="k1", kind=CommandKind.KILL, scope=ScopeKind.AGENT, id="cleaner", by="ada", reason="stop", time=at(9)
    )
    produce(embedded.bootstrap, messages_of([kill]))
    wait_until(lambda: KillSwitchClient.is_killed("agent", "cleaner", fail_closed=True), "the SDK is told")
    assert not KillSwitchClient.is_killed("run", "another", fail_closed=True)
