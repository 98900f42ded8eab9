"""Acts of an operator in a real browser reach a real worker, and agents that wait or are stopped."""

import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import NamedTuple

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from haltline.console.access.keys import Keys, Role
from haltline.console.settings import ConsoleSettings, ProtectionLimits
from haltline.interventions.agent import Guard
from haltline.streams.local.subprocesses import Child
from tests.console.browser.conftest import SECOND, served, signed_in
from tests.console.browser.scene import HEALTHY, healthy, runaway
from tests.console.serving import bearer
from tests.console.topics import messages_of, produce
from tests.streams.operator.test_approval_client import delete, guard_of, in_background
from tests.streams.running import asking_system
from tests.waiting import wait_until

QUICK = ProtectionLimits(workers_s=2.0, broker_s=2.0, look_every_s=0.3)


class System(NamedTuple):
    """Addresses and settings, a worker that asks before it destroys again, and an operator's client."""

    bootstrap: str
    address: str
    settings: ConsoleSettings
    worker: Child
    client: httpx.Client


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    folder = tmp_path_factory.mktemp("acting")
    with asking_system(folder, "--session-timeout", "60") as (bootstrap, worker):
        settings = ConsoleSettings(
            bootstrap=bootstrap, keys=Keys({}), database=f"sqlite:///{folder}/model.db", answer_within_s=30
        )
        with (
            served(settings) as address,
            httpx.Client(base_url=address, headers=bearer(Role.OPERATOR), timeout=60) as client,
        ):
            yield System(bootstrap, address, settings, worker, client)


@pytest.fixture(scope="module")
def watched(system: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console that soon says that a worker stands still."""
    database = f"sqlite:///{tmp_path_factory.mktemp('watched')}/model.db"
    with served(replace(system.settings, database=database), QUICK) as address:
        yield address


@pytest.fixture
def page(chromium: Browser, system: System) -> Iterator[Page]:
    with signed_in(chromium, system.address, Role.OPERATOR) as page:
        yield page


def test_a_session_is_frozen_with_a_preview_listed_and_lifted(page: Page, system: System) -> None:
    with guard_of(system.bootstrap, "s-freeze") as guard, guard_of(system.bootstrap, "s-other") as other:
        assert (delete(guard), delete(other)) == ("executed", "executed")
        page.goto("/kill?scope=session&id=s-freeze")
        page.get_by_label("Action").select_option("contain")
        expect(page.locator("#preview")).to_contain_text("1 session of 1 agent could only read")
        page.get_by_label("Action").select_option("freeze")
        expect(page.locator("#preview")).to_contain_text("would have every call refused")
        expect(page.locator("form").get_by_role("row").filter(has_text="s-freeze")).to_be_visible()
        expect(page.locator("form").get_by_role("row").filter(has_text="s-other")).to_have_count(0)
        page.get_by_role("button", name="Freeze 1 session").click()
        expect(page.get_by_role("alert")).to_contain_text("Reason: expected a text, got none.")
        page.get_by_label("Reason").fill("we look at what it did")
        page.get_by_role("button", name="Freeze 1 session").click()
        page.get_by_role("dialog", name="Freeze session s-freeze").get_by_role("button", name="Freeze").click()
        expect(page.get_by_text("Session s-freeze was frozen")).to_be_visible()
        wait_until(lambda: delete(guard, "b") == "session_frozen_by_operator", "its next call is refused")
        assert delete(other, "b") == "executed"
        held = page.get_by_role("region", name="Stopped now").get_by_role("row").filter(has_text="s-freeze")
        expect(held).to_contain_text("frozen")
        expect(held).to_contain_text("operator ada")
        expect(held).to_contain_text("we look at what it did")
        page.goto("/fleet")
        needs = page.get_by_role("region", name="Needs a person")
        expect(needs.get_by_role("row").filter(has_text="s-freeze")).to_contain_text("we look at what it did")
        page.goto("/sessions/s-freeze")
        page.locator(".head").get_by_label("Why").select_option("false alarm")
        page.get_by_role("button", name="Release").click()
        expect(page.get_by_text("Session s-freeze is released.")).to_be_visible()
        expect(page.get_by_role("button", name="Release")).to_have_count(0)
        page.goto("/fleet")
        expect(needs).to_contain_text("Nothing needs a person.")
        wait_until(lambda: delete(guard, "c") == "executed", "the next call is made again")


def test_the_fleet_takes_two_operators(chromium: Browser, page: Page, system: System) -> None:
    def kill_the_fleet(of: Page) -> None:
        of.goto("/kill")
        of.get_by_label("Scope").select_option("fleet")
        of.get_by_role("button", name="Preview").click()
        of.get_by_label("Reason").fill("everything deletes")
        of.get_by_role("button", name="Kill", exact=False).last.click()
        dialog = of.get_by_role("dialog")
        expect(dialog).to_contain_text("takes two operators")
        dialog.get_by_label("Type fleet").fill("fleet")
        dialog.get_by_role("button", name="Kill").click()

    kill_the_fleet(page)
    expect(page.get_by_text("needs a second operator: nothing is stopped yet")).to_be_visible()
    with signed_in(chromium, system.address, key=SECOND) as second:
        kill_the_fleet(second)
        expect(second.get_by_text("The fleet was killed")).to_be_visible()
        fleet = second.get_by_role("region", name="Stopped now").get_by_role("row").filter(has_text="fleet")
        fleet.get_by_role("button", name="Release").click()
        second.get_by_label("Reason").last.fill("it is over")
        second.get_by_role("dialog").get_by_role("button", name="Release").click()
        expect(second.get_by_text("The fleet is released.")).to_be_visible()


def test_a_batch_is_approved_and_one_is_rejected(page: Page, system: System) -> None:
    names = [f"s-batch-{number}" for number in range(3)]
    guards = [guard_of(system.bootstrap, name) for name in names]
    try:
        waits: dict[str, Future[str]] = {}
        for name, guard in zip(names, guards, strict=True):
            assert delete(guard) == "executed"
            waits[name] = in_background(guard)
        page.goto("/approvals")
        rows = {name: page.locator("tbody tr").filter(has_text=name) for name in names}
        for row in rows.values():
            expect(row).to_contain_text("delete_asset")
        rows[names[0]].get_by_role("checkbox").check()
        rows[names[1]].get_by_role("checkbox").check()
        expect(page.locator("#chosen")).to_contain_text("2 of 3")
        page.get_by_role("button", name="Approve selected").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Approve 2 requests")
        dialog.get_by_label("Reason").fill("asked the owner")
        dialog.get_by_role("button", name="Approve").click()
        expect(page.get_by_text("2 requests approved.")).to_be_visible()
        assert [waits[name].result(30) for name in names[:2]] == ["executed", "executed"]
        expect(page.locator("tbody tr")).to_have_count(1)
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        page.keyboard.press("r")
        dialog.get_by_label("Reason").fill("not this one")
        dialog.get_by_role("button", name="Reject").click()
        assert waits[names[2]].result(30) == "approval_rejected"
        expect(page.get_by_text("No requests are waiting.")).to_be_visible()
    finally:
        close(guards)


def close(guards: list[Guard]) -> None:
    for guard in guards:
        guard.close()


def test_an_intervention_is_read_in_prose_acted_on_and_labelled_where_it_is_read(page: Page, system: System) -> None:
    with guard_of(system.bootstrap, "s-detail") as guard:
        assert delete(guard) == "executed"
        waits = in_background(guard)
        page.goto("/approvals")
        row = page.locator("tbody tr").filter(has_text="s-detail")
        expect(row).to_contain_text('delete_asset(asset_id="a")')
        expect(row.get_by_role("button")).to_have_text(["Approve", "Reject", "Ask"])
        page.goto("/interventions?run_id=s-detail&outcome=escalated")
        page.locator("tbody tr").get_by_role("link", name="delete_asset").first.click()
        prose = page.locator(".prose")
        expect(prose).to_contain_text('Agent agent of s-detail called delete_asset(asset_id="a")')
        expect(prose).to_contain_text("The call is waiting for an approval.")
        followed = page.get_by_role("region", name="What followed")
        expect(followed).to_contain_text("waiting for an approval")
        expect(page.get_by_text("no prices configured").first).to_be_visible()
        expect(page.get_by_text('"original_inputs"')).not_to_be_visible()
        page.get_by_role("button", name="Approve once").click()
        assert waits.result(30) == "executed"
        expect(page.get_by_role("button", name="Approve once")).to_have_count(0)
        page.get_by_role("button", name="Kill session").click()
        expect(followed).to_contain_text("session s-detail")
        expect(page.get_by_role("button", name="Kill session")).to_have_count(0)
        page.get_by_role("button", name="Release session").click()
        expect(page.get_by_role("button", name="Kill session")).to_be_visible()
        act(page.get_by_role("button", name="False alarm"), "Save label", "the owner wanted it")
        expect(page.get_by_text("Label saved.")).to_be_visible()
        act(page.get_by_role("button", name="Mute this rule"), "Mute", "is rewritten")
        expect(page.get_by_text("destructive_repeat is muted for agent")).to_be_visible()
    page.goto("/policies")
    expect(page.get_by_text("by operator ada: is rewritten")).to_be_visible()
    act(page.get_by_role("button", name="Unmute"), "Unmute", "is done")
    expect(page.get_by_role("button", name="Unmute")).to_have_count(0)
    page.goto("/precision")
    by_rule = page.get_by_role("region", name="By rule").get_by_role("row")
    expect(by_rule.filter(has_text="destructive_repeat")).to_contain_text("0 %")
    expect(page.get_by_role("region", name="Latest labels")).to_contain_text("the owner wanted it")
    page.get_by_role("button", name="Report a missed runaway").click()
    dialog = page.get_by_role("dialog")
    for label, text in (("Session", "s-detail"), ("Rule", "error_repetition"), ("Reason", "failed all night")):
        dialog.get_by_label(label).fill(text)
    dialog.get_by_role("button", name="Save label").click()
    expect(by_rule.filter(has_text="error_repetition")).to_contain_text("0 %")


def act(button: Locator, confirm: str, reason: str) -> None:
    button.click()
    page = button.page
    page.get_by_role("dialog").get_by_label("Reason").fill(reason)
    page.get_by_role("dialog").get_by_role("button", name=confirm).click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_an_incident_is_acknowledged_commented_on_reported_and_resolved(page: Page, system: System) -> None:
    with guard_of(system.bootstrap, "s-incident") as guard:
        assert delete(guard) == "executed"
        waits = in_background(guard)
        page.goto("/incidents?session_id=s-incident")
        row = page.get_by_role("row").filter(has_text="s-incident")
        act(row.get_by_role("button", name="Acknowledge"), "Acknowledge", "I am awake")
        expect(row).to_contain_text("acknowledged")
        row.get_by_role("link").first.click()
        incident = page.get_by_role("dialog").first
        incident.get_by_role("button", name="Comment").click()
        page.get_by_role("dialog").last.get_by_label("Reason").fill("the owner is asked")
        page.get_by_role("dialog").last.get_by_role("button", name="Comment", exact=True).click()
        expect(page.get_by_text("commented.")).to_be_visible()
        page.goto("/fleet")
        calls = page.get_by_role("region", name="Needs a person").get_by_role("row").filter(has_text="s-incident")
        expect(calls).to_contain_text("delete_asset")
        page.goto("/incidents?session_id=s-incident")
        row.get_by_role("button", name="Snooze 1 h").click()
        expect(row).to_contain_text("snoozed")
        page.goto("/fleet")
        expect(page.get_by_text("1 incident snoozed")).to_be_visible()
        expect(calls).to_have_count(0)
        page.goto("/approvals")
        page.locator("tbody tr").filter(has_text="s-incident").get_by_role("button", name="Approve").click()
        assert waits.result(30) == "executed"
        page.goto("/incidents?session_id=s-incident")
        act(row.get_by_role("button", name="Resolve"), "Resolve", "it has gone on")
        expect(page.get_by_text("No incident is open.")).to_be_visible()
        page.goto("/incidents?state=resolved&session_id=s-incident")
        row.get_by_role("link").first.click()
        for text in ("acknowledged by", "the owner is asked", "resolved by"):
            expect(incident.get_by_role("listitem").filter(has_text=text)).not_to_have_count(0)
        incident.get_by_text("Report: timeline, impact").click()
        expect(incident.get_by_text("the session began")).to_be_visible()


def test_a_kill_is_neither_softened_nor_lifted(system: System) -> None:
    client = system.client
    act = {"scope": "agent", "id": "cleaner-9", "unknown": True, "reason": "no"}
    assert client.post("/api/v1/kill", json=act).json()["answered"]
    answers = {word: client.post(f"/api/v1/{word}", json=act) for word in ("freeze", "contain", "lift")}
    assert {word: answer.status_code for word, answer in answers.items()} == dict.fromkeys(answers, 409)
    assert "expected one that is not killed; a reset ends a kill" in answers["lift"].json()["detail"]
    for field, status in (({"probation_actions": 10_001}, 422), ({"session": "of-nobody"}, 404)):
        assert client.post("/api/v1/reset", json={**act, **field}).status_code == status
    assert client.post("/api/v1/reset", json={**act, "probation_actions": 3}).json()["answered"]


def test_a_worker_that_stands_still_is_reported_over_every_page_until_it_goes_on(
    chromium: Browser, system: System, watched: str
) -> None:
    bootstrap, worker = system.bootstrap, system.worker
    actions = [record for record in messages_of(healthy().events) if record[0] == "actions"]
    with signed_in(chromium, watched, Role.VIEWER) as page:
        banner = page.get_by_role("alert")
        produce(bootstrap, actions)
        page.goto("/sessions")
        expect(page.locator("tbody tr").filter(has_text=HEALTHY)).to_have_count(1)
        expect(banner).to_have_count(0)
        os.kill(worker.pid, signal.SIGSTOP)
        try:
            produce(bootstrap, [record for record in messages_of(runaway("late-1").events) if record[0] == "actions"])
            expect(banner).to_contain_text("Protection is down")
            expect(banner).to_contain_text("of haltline.actions")
            expect(page.locator(".banner .since")).to_contain_text("since")
            expect(page.locator(".banner")).to_contain_text("haltline doctor")
            expect(page).to_have_title(re.compile(r"^\(!\) \(\d\) Sessions · haltline$"))
            page.get_by_role("button", name="Fold").click()
            expect(page.locator(".banner")).not_to_contain_text("of haltline.actions", use_inner_text=True)
            page.goto("/kill")
            expect(banner).to_have_text("Protection is down.", use_inner_text=True)
            page.get_by_role("button", name="What to do").click()
            expect(page.locator(".banner")).to_contain_text("haltline doctor", use_inner_text=True)
        finally:
            os.kill(worker.pid, signal.SIGCONT)
        expect(banner).to_have_count(0)
        expect(page).to_have_title(re.compile(r"^(\(\d\) )?Kill · haltline$"))
