"""ACGP's own SDK, unchanged, against the API; a real worker decides on its traces."""

from collections.abc import Iterator
from typing import Any

import pytest
from acgp import ACGPClient, acgp_trace
from fastapi.testclient import TestClient

from haltline.console.access.keys import Role
from haltline.schemas.topics import Topics
from tests.console.sdk import on_a_port
from tests.console.serving import KEYS, bearer, serving
from tests.mock_cluster import QuickBroker
from tests.streams.running import running_worker
from tests.waiting import wait_until

GOVERNED = """
interventions:
  acgp:
    - agent: governed-*
      tripwires:
        - id: no_wires
          when: {tool: wire_money}
          condition: args.usd > 100
          on_fail: {decision: block, reason: more than 100 USD}
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, TestClient]]:
    folder = tmp_path_factory.mktemp("steward")
    (folder / "policy.yaml").write_text(GOVERNED)
    with QuickBroker() as broker:
        broker.ensure_topics(Topics())
        with (
            running_worker(broker.bootstrap, folder, "--policy", str(folder / "policy.yaml")),
            serving(broker.bootstrap, folder, answer_within_s=30) as admin,
            on_a_port(admin.app) as url,
        ):
            yield url, admin


SECRET = " My key is ghp_0123456789abcdefghijklmn."

Heard = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def received() -> Heard:
    return []


@pytest.fixture
def client(system: tuple[str, TestClient], received: Heard) -> Iterator[ACGPClient]:
    client = ACGPClient(
        api_key=KEYS[Role.AGENT],
        endpoint=system[0],
        on_feedback=lambda trace_id, result: received.append((trace_id, result)),
        fail_silently=False,
        flush_interval=60.0,
    )
    wait_until(lambda: client.sse_connected, "the stream is open")
    yield client
    client.close(timeout=30)


def test_feedback_on_a_trace_comes_by_the_stream_and_can_be_asked_for(
    client: ACGPClient, received: Heard, system: tuple[str, TestClient]
) -> None:
    _, admin = system
    with client.trace(agent_type="planner", agent_tag="shop-planner", goal="Plan the order") as trace:
        trace.set_reasoning(" ".join(f"Shelf {n} holds {n * 7 % 13} boxes of {n:x}." for n in range(60)) + SECRET)
        trace.set_output("1. Count. 2. Order.", "plan")
        trace.add_context("session_id", "steward-1").add_context("total_tokens", 2**70)
    assert client.wait_for_feedback(timeout=30)
    last = dict(received)[trace.trace_id]
    told = (last["feedback"]["intervention"], last["requires_hitl"], last["ctq_scores"]["composite_score"])
    assert told == ("OK", False, 1.0)
    score, feedback = client.get_score(trace.trace_id), client.get_feedback(trace.trace_id)
    assert score is not None
    assert feedback is not None
    told = (score["status"], score["scores"]["reasoning"], feedback["feedback"]["agent_id"])
    assert told == ("processed", 1.0, "shop-planner")
    assert client.get_oversight_mode(trace.trace_id) == "socratic_philosopher"
    story = admin.get("/api/v1/sessions/steward-1")
    assert (story.json()["session"]["goal"], "ghp_" in story.text) == ("Plan the order", False)


def test_what_a_tripwire_forbids_is_blocked_and_its_score_is_reported(client: ACGPClient, received: Heard) -> None:
    trace_id = client.capture_trace(
        "executor",
        "Pay the bill",
        reasoning_text="The bill says 5000.",
        agent_tag="governed-payer",
        context_information={"tool": "wire_money", "args": {"usd": 5000}, "ctq": {"ethical": 0.1, "grounding": 0.2}},
    )
    assert client.wait_for_feedback(timeout=30)
    reported = dict(received)[trace_id]
    assert (reported["feedback"]["intervention"], reported["feedback"]["tripwire"]) == ("BLOCK", "no_wires")
    assert reported["ctq_scores"]["composite_score"] < 1
    assert reported["ctq_scores"]["ethical"] == 0.1


def test_an_agent_that_repeats_itself_is_halted(client: ACGPClient, received: Heard) -> None:
    @acgp_trace(client, agent_type="executor", agent_tag="deleter")  # type: ignore[untyped-decorator]  # of the SDK
    def warm_up(text: str) -> str:
        return text

    warm_up("begin")
    deletes = {"tool": "delete_asset", "args": {"asset_id": "fact_sales"}}
    more: dict[str, Any] = {"final_output": "locked", "agent_tag": "deleter", "context_information": deletes}
    traces = [client.capture_trace("executor", "Clean up", **more) for _ in range(4)]
    assert client.wait_for_feedback(timeout=30)
    reported = dict(received)
    result = [reported[trace_id]["feedback"]["intervention"] for trace_id in traces]
    assert (result[0], result[-1], reported[traces[-1]]["requires_hitl"]) == ("OK", "HALT", True), result


def test_only_who_sent_a_trace_and_operators_hear_of_it(client: ACGPClient, system: tuple[str, TestClient]) -> None:
    _, admin = system
    trace_id = client.capture_trace("planner", "Plan", "first", "done", agent_tag="mine")
    assert client.wait_for_feedback(timeout=30)
    of = f"/v1/query/scores/{trace_id}"
    assert admin.get(of).json()["status"] == "processed"
    admin.headers.pop("Authorization")
    try:
        assert admin.get(of, headers={"X-API-Key": "nobody's"}).status_code == 401
        assert admin.get(of, headers={"X-API-Key": KEYS[Role.AGENT]}).json()["status"] == "processed"
        assert admin.get(of, headers={"X-API-Key": KEYS[Role.VIEWER]}).status_code == 403
    finally:
        admin.headers.update(bearer(Role.ADMIN))
    assert admin.get("/v1/query/feedback/none").json() == {"trace_id": "none", "status": "not_found", "feedback": None}


def test_what_cannot_be_read_is_reported_and_holds_nothing_back(system: tuple[str, TestClient]) -> None:
    _, admin = system
    response = admin.post(
        "/v1/ingest/traces/batch", json={"batch_id": "b", "events": [{"trace_id": ""}, {"trace_id": "t1"}]}
    )
    assert (response.status_code, response.json()["accepted"], response.json()["failed"]) == (202, 1, 1)
    assert response.json()["errors"][0].startswith("events[0].trace_id: ")
    bad = admin.post("/v1/ingest/traces/batch", content=b"no gzip", headers={"Content-Encoding": "gzip"})
    assert (bad.status_code, "gzip" in bad.json()["detail"]) == (400, True)
