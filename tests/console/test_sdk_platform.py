"""Agent Sentinel's own SDK, unchanged, for all that it asks of its platform; a real worker decides."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest
from agent_sentinel import guarded_action
from agent_sentinel.approval import ApprovalClient, ApprovalRequest, ApprovalResponse, ApprovalStatus
from agent_sentinel.context import ExecutionContext
from agent_sentinel.cost import CostTracker
from agent_sentinel.cost_backend import RemoteCostBackend
from agent_sentinel.errors import AgentKilledError, BudgetExceededError, NetworkError, PolicyViolationError
from agent_sentinel.integrations.registry import auto_register_tools
from agent_sentinel.kill_switch import KillSwitchClient
from agent_sentinel.ledger import Ledger
from agent_sentinel.policy import PolicyEngine
from agent_sentinel.replay import ReplayMode
from agent_sentinel.sync import BackgroundSync, SyncConfig, enable_remote_sync, flush_and_stop
from fastapi.testclient import TestClient
from sqlalchemy import select

from haltline.console.access.keys import Role
from haltline.console.read_model import tables
from haltline.console.sdk_rules import ConsoleRules
from haltline.schemas.topics import Topics
from tests.console.sdk import fresh_sdk, on_a_port, ruled
from tests.console.serving import KEYS, bearer, context
from tests.mock_cluster import QuickBroker
from tests.streams.running import running_worker
from tests.waiting import wait_until

AGENT = KEYS[Role.AGENT]
RULES = ConsoleRules.model_validate(
    {
        "rules": {
            "run_budget": 50.0,
            "denied_actions": ["drop_*"],
            "rate_limits": {
                "send_mail": [{"max_count": 9, "window_seconds": 60}, {"max_count": 2, "window_seconds": 60}]
            },
            "argument_constraints": {"pay": {"required": ["to"], "properties": {"amount": {"maximum": 500}}}},
            "evidence_requirements": {"issue_refund": ["lookup_order"]},
        },
        "approvals": {"actions": ["transfer_*"], "threshold_usd": 20.0, "timeout_s": 60},
        "budgets": {"monthly_usd": 10.0, "groups": {"night-*": 3.0}},
    }
)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, TestClient, str, Path]]:
    """The platform's URL, a client of it that is an admin, the broker, and the folder of its database."""
    folder = tmp_path_factory.mktemp("platform")
    with QuickBroker() as broker:
        broker.ensure_topics(Topics())
        with (
            running_worker(broker.bootstrap, folder),
            ruled(broker.bootstrap, folder, RULES) as admin,
            on_a_port(admin.app) as url,
        ):
            yield url, admin, broker.bootstrap, folder


@pytest.fixture
def url(system: tuple[str, TestClient, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("AGENT_SENTINEL_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with fresh_sdk(tmp_path):
        yield system[0]


@pytest.fixture
def admin(system: tuple[str, TestClient, str, Path]) -> TestClient:
    return system[1]


@guarded_action(name="delete_asset", cost_usd=0.5, tags=["warehouse"], impact="high")  # type: ignore[untyped-decorator]  # of the SDK
def delete_asset(asset_id: str, token: str = "") -> str:
    raise RuntimeError(f"{asset_id} is locked")


def test_what_the_ledger_tells_is_decided_on_and_the_sdk_is_stopped(url: str, admin: TestClient) -> None:
    KillSwitchClient.configure(url, AGENT, cache_ttl=0.0)
    sync = BackgroundSync(SyncConfig(url, AGENT, run_id="ledger-1", agent_id="cleaner"))
    with ExecutionContext(run_id="ledger-1", agent_id="cleaner"):
        for _ in range(4):
            with pytest.raises(RuntimeError):
                delete_asset("fact_sales", token="ghp_0123456789abcdefghij")
        ledger = Ledger.get_log_path()
        assert ledger is not None
        with ledger.open("a") as more:
            more.write(json.dumps({"id": "bad", "action": "x", "timestamp": "yesterday", "run_id": "ledger-1"}) + "\n")
        sync.flush_now()
        assert ledger.read_text() == "", "all of it was taken, and what cannot be read holds nothing back"
        wait_until(
            lambda: any("entries[4].timestamp" in one for one in letters(admin)), "the bad line is a dead letter"
        )
        wait_until(lambda: KillSwitchClient.is_killed("run", "ledger-1", fail_closed=True), "the run is killed")
        assert not KillSwitchClient.is_killed("run", "another", fail_closed=True)
        with pytest.raises(AgentKilledError):
            delete_asset("fact_sales")
    story = admin.get("/api/v1/sessions/ledger-1").json()
    told = (story["session"]["agent_id"], story["session"]["level"], story["session"]["cost_usd"])
    assert told == ("cleaner", "KILL", 2.0)
    calls = [step["record"] for step in story["steps"] if step["kind"] == "action.proposed"]
    said = [(call["args"]["kwargs"], call["tags"]) for call in calls]
    assert said == [({"token": "[redacted:token]"}, ["warehouse"])] * 4
    assert "ghp_" not in json.dumps(story)


def letters(admin: TestClient) -> list[str]:
    records = tables.records.c
    with context(admin).engine.connect() as connection:
        return list(connection.execute(select(records.summary).where(records.topic == "dead-letter")).scalars())


def asks(url: str, action: str, run: str, **how: object) -> ApprovalResponse:
    return ApprovalClient.request_approval_sync(action, agent_id="payer", run_id=run, **how)  # type: ignore[arg-type]


def pending(admin: TestClient, run: str) -> str:
    def waiting() -> list[str]:
        listed = admin.get("/api/v1/approvals/pending").json()["approvals"]
        return [one["id"] for one in listed if one["session_id"] == run]

    wait_until(lambda: bool(waiting()), f"run {run} waits for a person")
    return waiting()[0]


@pytest.mark.parametrize(
    ("word", "status"), [("approve", ApprovalStatus.APPROVED), ("reject", ApprovalStatus.REJECTED)]
)
def test_a_person_answers_what_the_sdk_asks(url: str, admin: TestClient, word: str, status: ApprovalStatus) -> None:
    ApprovalClient.configure(url, AGENT, poll_interval=0.05)
    run = f"asks-{word}"
    with ThreadPoolExecutor(1) as thread:
        waits = thread.submit(
            asks, url, "transfer_funds", run, timeout_seconds=60, action_inputs={"password": "x1y2z3"}
        )
        request = pending(admin, run)
        shown = admin.get(f"/api/v1/approvals/{request}").json()
        assert (shown["asked_by"], shown["agent_id"], "x1y2z3" in json.dumps(shown)) == ("agent ada", "payer", False)
        own = admin.post(f"/api/v1/approvals/{request}/{word}", json={"reason": "I"}, headers=bearer(Role.AGENT))
        assert own.status_code == 403, "an agent's key answers nothing"
        answer = admin.post(
            f"/api/v1/approvals/{request}/{word}", json={"reason": "asked the owner"}, headers=bearer(Role.OPERATOR)
        )
        assert answer.json()["answered"], answer.text
        assert answer.json()["approvals"][0]["status"] in ("rejected", "approved", "used"), "as the worker told it"
        response = waits.result(30)
    told = (response.status, response.decided_by_email, response.decision_notes)
    assert told == (status, "operator ada", "asked the owner")
    again = admin.post(f"/api/v1/approvals/{request}/approve", json={"reason": "again"})
    assert (again.status_code, "cannot be answered any more" in again.text) == (409, True), "answered once"
    assert admin.post("/api/v1/approvals/none/approve", json={"reason": "yes"}).status_code == 404


def test_an_approval_lets_one_call_through_once(
    url: str, admin: TestClient, system: tuple[str, TestClient, str, Path]
) -> None:
    """However many ask after it, and wherever: an agent's threads at two consoles of one database."""
    _, _, bootstrap, folder = system
    ApprovalClient.configure(url, AGENT, poll_interval=0.05)
    request = ApprovalClient.submit_request(ApprovalRequest("transfer_funds", run_id="spends", timeout_seconds=60))
    of = f"/api/v1/approvals/{request}"
    assert ApprovalClient.poll_status(request).status is ApprovalStatus.PENDING
    admin.post(f"{of}/approve", json={"reason": "well"})
    wait_until(lambda: admin.get(of).json()["status"] == "approved", "it is approved")
    assert [admin.get(f"{of}/poll").json()["status"] for _ in range(2)] == ["approved"] * 2, "a look uses nothing"
    with ruled(bootstrap, folder, RULES) as other, ThreadPoolExecutor(8) as threads:
        consoles = [admin, other]
        wait_until(lambda: other.get(of).json()["status"] == "approved", "the other console knows of it")
        answers = list(
            threads.map(lambda n: consoles[n % 2].get(f"{of}/poll", headers=bearer(Role.AGENT)).json(), range(8))
        )
    assert sorted(answer["status"] for answer in answers) == ["approved"] + ["expired"] * 7
    assert {answer["decision_notes"] for answer in answers} == {"well", "it was used: an approval is for one call"}
    assert ApprovalClient.poll_status(request).status is ApprovalStatus.EXPIRED
    wait_until(lambda: admin.get(of).json()["status"] == "used", "the worker and the inbox know that it was used")
    uses = [step["record"] for step in admin.get("/api/v1/sessions/spends").json()["steps"] if step["kind"] == "use"]
    assert [(one["by"], one["request_id"]) for one in uses] == [("agent ada", request)], "the audit has it, once"


def test_the_same_call_made_twice_is_approved_twice(url: str, admin: TestClient) -> None:
    made: list[int] = []

    @guarded_action(name="train_model", cost_usd=21.0)  # type: ignore[untyped-decorator]  # of the SDK
    def train(size: int) -> None:
        made.append(size)

    ApprovalClient.configure(url, AGENT, poll_interval=0.05)
    PolicyEngine.enable_remote_sync(url, AGENT, agent_id="payer", run_id="twice")
    answered: list[str] = []
    for word in ("approve", "reject"):
        with ThreadPoolExecutor(1) as thread:
            waits = thread.submit(_in_run, "twice", train, 5)
            answered.append(pending(admin, "twice"))
            assert admin.post(f"/api/v1/approvals/{answered[-1]}/{word}", json={"reason": "so"}).json()["answered"]
            if word == "approve":
                waits.result(30)
            else:
                with pytest.raises(PolicyViolationError):
                    waits.result(30)
    assert (made, len(set(answered))) == ([5], 2)


def _in_run(run: str, call: Callable[[int], None], size: int) -> None:
    with ExecutionContext(run_id=run, agent_id="payer"):
        call(size)


def test_a_question_is_answered_by_the_agents_side_and_then_a_person_decides(url: str, admin: TestClient) -> None:
    received: list[str] = []

    def says(text: str) -> str:
        received.append(text)
        return "the fund's"

    ApprovalClient.configure(url, AGENT, poll_interval=0.05, info_request_handler=says)
    with ThreadPoolExecutor(1) as thread:
        waits = thread.submit(asks, url, "transfer_funds", "asks-back", timeout_seconds=60)
        request = pending(admin, "asks-back")
        admin.post(f"/api/v1/approvals/{request}/ask", json={"reason": "whose money?"})
        of = f"/api/v1/approvals/{request}"
        wait_until(lambda: admin.get(of).json()["answer"] == "the fund's", "the answer is there")
        admin.post(f"{of}/approve", json={"reason": "well"})
        assert waits.result(30).status is ApprovalStatus.APPROVED
    assert received == ["whose money?"]


def test_what_nobody_answers_is_refused_and_what_is_taken_back_stays_so(url: str, admin: TestClient) -> None:
    ApprovalClient.configure(url, AGENT, poll_interval=0.05)
    given_up = ApprovalClient.submit_request(ApprovalRequest("transfer_funds", run_id="gives-up", timeout_seconds=60))
    hasty = ApprovalClient.submit_request(ApprovalRequest("transfer_funds", run_id="hasty", timeout_seconds=1))
    assert ApprovalClient.cancel_request(given_up).status is ApprovalStatus.CANCELLED
    wait_until(lambda: ApprovalClient.poll_status(given_up).status is ApprovalStatus.CANCELLED, "it is taken back")
    wait_until(lambda: ApprovalClient.poll_status(hasty).status is ApprovalStatus.EXPIRED, "it has expired")
    refused = [admin.post(f"/api/v1/approvals/{one}/approve", json={"reason": "late"}) for one in (given_up, hasty)]
    assert [one.status_code for one in refused] == [409, 409]
    with pytest.raises(NetworkError, match="not found"):
        ApprovalClient.poll_status("apr_nobodys")


def test_calls_that_want_an_approval_are_reported_before_and_by_the_policy(url: str, admin: TestClient) -> None:
    ApprovalClient.configure(url, AGENT)
    assert ApprovalClient.check_approval_required("read_page") is None
    expected = ApprovalClient.check_approval_required("transfer_funds")
    assert expected is not None
    assert (expected["requires_approval"], expected["timeout_seconds"]) == (True, 60)
    assert ApprovalClient.check_approval_required("train_model", cost_usd=20.0) is not None


def test_the_sdk_keeps_the_authors_rules(url: str, admin: TestClient) -> None:
    tools = ModuleType("tools_of_cleaner")
    tools.drop_table = guarded_action(name="drop_table")(str)  # type: ignore[attr-defined]  # of the SDK
    assert auto_register_tools(url, AGENT, "cleaner", [tools])["total"] == 1
    (tool,) = admin.get("/api/v1/actions", params={"agent_id": "cleaner"}).json()
    assert tool["name"] == "drop_table"
    PolicyEngine.enable_remote_sync(url, AGENT, agent_id="cleaner", run_id="ruled")
    for action, usd, times in (("drop_table", 0.0, 1), ("train", 50.5, 1), ("send_mail", 0.0, 3)):
        for _ in range(times - 1):
            PolicyEngine.check_action(action, usd)
        with pytest.raises((PolicyViolationError, BudgetExceededError)):
            PolicyEngine.check_action(action, usd)
    PolicyEngine.check_action("read_page", 0.1)
    config = PolicyEngine._config
    assert config is not None
    assert config.argument_constraints["pay"]["properties"]["amount"] == {"maximum": 500.0}
    assert (config.evidence_requirements, config.approval_timeout_seconds) == ({"issue_refund": ["lookup_order"]}, 60)
    assert PolicyEngine.requires_approval("train_model", cost=25.0)


def test_a_budget_holds_across_processes_and_restarts_and_settles_with_what_was_spent(
    url: str, admin: TestClient, system: tuple[str, TestClient, str, Path]
) -> None:
    _, _, bootstrap, folder = system
    spent_before = _monthly(admin)
    with ruled(bootstrap, folder, RULES) as other, on_a_port(other.app) as elsewhere:
        CostTracker.set_group("night-7")
        backends = [RemoteCostBackend(one, AGENT, timeout=30.0) for one in (url, elsewhere)]
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda n: backends[n % 2].try_reserve("train", 0.5), range(16)))
    refused = [answer for answer in answers if answer is not None]
    assert len(answers) - len(refused) == 6, "3 USD in all, from two consoles at once"
    assert {(one.budget_type, one.spent, one.limit) for one in refused} == {("group", 3.5, 3.0)}
    with ruled(bootstrap, folder, RULES) as again:
        assert _reserve(again, 0.5, group_id="night-7").json()["detail"]["budget_type"] == "group", "after a restart"
    sync = BackgroundSync(SyncConfig(url, AGENT, run_id="trains"))
    Ledger.record("train", {}, "done", cost_usd=0.1, duration_ms=1.0, outcome="success", tags=[], run_id="trains")
    sync.flush_now()
    assert _reserve(admin, 0.4, group_id="night-7").status_code == 201, "it did cost less than was held"
    assert round(_monthly(admin) - spent_before, 6) == 3.0
    once = [_reserve(admin, 0.25, key="once").json()["reservation_id"] for _ in range(3)]
    assert len(set(once)) == 1
    assert round(_monthly(admin) - spent_before, 6) == 3.25


def _reserve(client: TestClient, usd: float, key: str | None = None, **more: str):  # type: ignore[no-untyped-def]
    result = {"action_name": "train", "estimated_cost_usd": usd, **more}
    headers = {} if key is None else {"Idempotency-Key": key}
    return client.post("/api/v1/budgets/reserve", json=result, headers=headers)


def _monthly(client: TestClient) -> float:
    """The amount spent and reserved this month, from the refusal of a call that costs the whole budget."""
    detail = _reserve(client, 10.01).json()["detail"]
    return float(detail["spent"]) - 10.01


def test_a_session_is_replayed_by_the_sdk_and_the_result_is_kept(url: str, admin: TestClient) -> None:
    calls = 0

    @guarded_action(name="fetch", cost_usd=0.01)  # type: ignore[untyped-decorator]  # of the SDK
    def fetch(page: int) -> dict[str, int]:
        nonlocal calls
        calls += 1
        return {"page": page, "size": 3}

    sync = enable_remote_sync(url, AGENT, run_id="replayed-1", agent_id="reader", auto_start=False)
    try:
        first = [fetch(page=1), fetch(page=2)]
        sync.flush()
        of = "/api/v1/replay/replayed-1/bundle"
        wait_until(lambda: len(admin.get(of).json().get("entries", [])) == 2, "the calls are in the read model")
        bundle = admin.get(of, headers=bearer(Role.AGENT)).json()
        assert (bundle["run_id"], bundle["agent_id"], bundle["complete"]) == ("replayed-1", "reader", True)
        with ReplayMode.from_json(bundle, strict=False) as replay:
            assert [fetch(page=1), fetch(page=2)] == first
        assert (calls, replay.divergences) == (2, [])
        with ReplayMode.from_json(bundle, strict=False):
            fetch(page=9)
    finally:
        flush_and_stop()
    kept = admin.get("/api/v1/replay/replayed-1/results").json()
    told = [(one["by"], one["result"]["status"], one["result"]["actions_replayed"]) for one in kept]
    assert told == [("agent ada", "partial", 1), ("agent ada", "success", 2)]
    assert kept[1]["result"]["cost_savings"] == pytest.approx(0.02)
