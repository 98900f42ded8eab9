"""Three scenarios of operators, each over many pages, in one system."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from playwright.sync_api import Browser, Page, expect

from tests.cli.printing import DEADLINE_S
from tests.console.browser.conftest import opened, sign_in
from tests.console.browser.days import BUILDER, CLEANER, MIGRATOR, Agent, Folder, System, archived, running
from tests.mock_cluster import QuickBroker
from tests.waiting import wait_until

pytestmark = pytest.mark.wide  # test_acting, test_looking and test_pictures show each of their steps
DESK: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}
NIGHT: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}
PHONE: dict[str, Any] = NIGHT | {"has_touch": True, "is_mobile": True}
REASON = "burns money until yaml is there"
BEYOND = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with running(tmp_path_factory.mktemp("days")) as system:
        try:
            yield system
        finally:
            system.end()


def test_the_engineer_puts_an_agent_behind_it(chromium: Browser, system: System) -> None:
    with opened(chromium, system.console, **DESK) as page:
        follow_the_printed_link(page, system)
        agent = system.agent(CLEANER, "cleaner-of-ada", "clean-up-1", HALTLINE_MODE="blocking")
        agent.ends()
        assert "refused: session_killed_loop_guard: This session was stopped." in agent.printed
        find_the_session_of("cleaner-of-ada", page)
        read_where_and_why_it_was_stopped(page)
        label_the_decision(page)
        read_how_to_try_another_threshold(page)
        find_the_label_counted(page)
    find_broker_table_and_processes_with_nothing_typed_twice(system.folder)


def find_broker_table_and_processes_with_nothing_typed_twice(folder: Folder) -> None:
    folder.run("kill", "night-7", "--unknown", "--reason", "loops", "--timeout", "60")
    wait_until(
        lambda: folder.json("audit", "query", "SELECT * FROM audit WHERE kind = 'kill' AND \"by\" = 'ada'"),
        "the table has the kill, by the operator named in the file",
        deadline_s=DEADLINE_S,
    )
    checks: dict[str, dict[str, object]] = {}

    def healthy() -> bool:
        checks.update({str(check["what"]): check for check in folder.json("doctor")})
        return {checks[f"{one}'s health"]["verdict"] for one in ("worker", "sink", "console")} == {"ok"}

    wait_until(healthy, "all is well", deadline_s=DEADLINE_S)
    files = [str(folder.path / file) for file in ("haltline.toml", ".haltline/up.toml")]
    assert str(checks["configuration"]["found"]).split(", ") == files
    assert [check for check in checks.values() if check["verdict"] == "bad"] == []


def follow_the_printed_link(page: Page, system: System) -> None:
    token = system.link.partition("token=")[2]
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(system.link)
    page.wait_for_url("**/fleet")
    expect(page.locator("#who")).to_have_text("ada (admin)")
    assert not [url for url in requests if token in url.partition("#")[0]], "the token is in no address that is sent"
    page.go_back(wait_until="load")
    assert token not in page.url, "nor in the history"
    page.goto(system.link)
    page.wait_for_url("**/fleet#")
    logs = [file for file in (system.folder.path / ".haltline").rglob("*") if file.is_file()]
    assert not [file for file in logs if token.encode() in file.read_bytes()], "the token is in no file"


def find_the_session_of(agent_id: str, page: Page) -> None:
    page.keyboard.press("Control+k")
    page.keyboard.type(agent_id)
    page.get_by_role("group", name="Agents").get_by_role("option").click()
    page.wait_for_url(f"**/sessions?agent_id={agent_id}")
    page.get_by_role("link", name="clean-up-1").click()
    page.wait_for_url("**/sessions/clean-up-1")


def read_where_and_why_it_was_stopped(page: Page) -> None:
    step, state = page.locator("li[aria-current=step]"), page.locator("#state")
    expect(step).to_contain_text("session_killed")
    lanes = page.get_by_role("listbox", name=re.compile("steps in lanes"))
    expect(lanes.get_by_role("option")).to_have_accessible_name(re.compile("Decisions, .*session_killed"))
    expect(state).to_contain_text("KILL")
    finding = page.locator(".finding").filter(has_text="destructive_repeat")
    finding.locator("summary").click()
    expect(finding).to_contain_text("3 deletes on asset_id=fact_sales")
    expect(finding.locator(".values")).to_contain_text("same_target_prior 1")
    page.locator(".evidence button").last.click()
    expect(step).to_contain_text("asset_id=fact_sales, why=it is there again")
    page.locator(".steps li").filter(has_text="session_killed").first.click()


def label_the_decision(page: Page) -> None:
    page.get_by_role("link", name="Label it, adjust its rule, or act on it").click()
    expect(page.locator(".prose")).to_contain_text("delete_asset(")
    page.get_by_role("button", name="Was right").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("it would have gone on all night")
    dialog.get_by_role("button", name="Save label").click()
    expect(page.get_by_text("Label saved.")).to_be_visible()


def read_how_to_try_another_threshold(page: Page) -> None:
    page.get_by_role("link", name="Adjust this rule").click()
    expect(page.locator("details[data-rule=destructive_repeat]")).to_contain_text("same_target_prior")
    expect(page.locator("#trial")).to_contain_text("haltline backtest")


def find_the_label_counted(page: Page) -> None:
    page.get_by_role("link", name="Precision").click()
    rule = page.get_by_role("region", name="By rule").get_by_role("row").filter(has_text="destructive_repeat")
    expect(rule).to_contain_text("100 %")
    expect(page.get_by_role("region", name="Latest labels")).to_contain_text("it would have gone on all night")


def test_the_operator_is_called_at_three(chromium: Browser, system: System) -> None:
    builder = system.agent(BUILDER, "builder-at-night", "night-build", "without-yaml", "600")
    with opened(chromium, system.console, **PHONE) as page:
        page.goto(system.link)
        expect(page.get_by_text("This link was already used")).to_be_visible()
        open_the_link_of_the_notification(page, system, "session", "night-build")
        read_why_it_was_stopped(page)
        acknowledge_and_comment_on_the_incident(page)
        kill_the_session_that_is_looked_at(page, builder)
        release_the_session_that_is_held(page, system)
        read_how_the_first_incident_ended(page)
        release_the_session(page)
        again = system.agent(BUILDER, "builder-at-night", "night-build", "with-yaml", "3")
        again.ends()
        assert again.printed.count("12 passed") == 3, again.printed
        page.goto("/sessions/night-build")
        expect(page.locator(".head .badge")).to_have_text("probation")
        fits(page)


def fits(page: Page) -> None:
    assert page.evaluate(BEYOND) <= 0, f"{page.url} is wider than the screen"


def open_the_link_of_the_notification(page: Page, system: System, name: str, session_id: str) -> None:
    page.goto(system.webhook.link(name, session_id))
    sign_in(page, system.keys["ada"])
    page.wait_for_url(f"**/sessions/{session_id}")
    expect(page.locator("#who")).to_have_text("ada (operator)")


def read_why_it_was_stopped(page: Page) -> None:
    expect(page.locator("#state")).to_contain_text("BLOCK")
    finding = page.locator(".finding").filter(has_text="No module named 'yaml'").first
    finding.locator("summary").tap()
    expect(finding.locator(".values")).to_be_visible()
    fits(page)


def acknowledge_and_comment_on_the_incident(page: Page) -> None:
    incident = page.get_by_role("region", name="Incidents").get_by_role("row").filter(has_text="no_progress")
    incident.get_by_role("button", name="Acknowledge").tap()
    answer_the_dialog(page, "I am awake", "Acknowledge")
    expect(incident).to_contain_text("acknowledged")
    incident.get_by_role("link", name="no_progress").tap()
    page.get_by_role("dialog").get_by_role("button", name="Comment").tap()
    answer_the_dialog(page, "yaml is missing on the build machine", "Comment")
    expect(page.get_by_text("commented.")).to_be_visible()


def answer_the_dialog(page: Page, reason: str, name: str) -> None:
    dialog = page.get_by_role("dialog").last  # over that of an incident
    dialog.get_by_label("Reason").fill(reason)
    dialog.get_by_role("button", name=name, exact=True).tap()
    expect(page.get_by_role("dialog")).to_have_count(0)


def kill_the_session_that_is_looked_at(page: Page, agent: Agent) -> None:
    page.goto("/sessions/night-build")
    page.locator("#kill-now").tap()
    expect(page.get_by_label("Id")).to_have_value("night-build")
    page.get_by_label("Reason").fill(REASON)
    page.get_by_role("button", name="Kill 1 session").tap()
    page.get_by_role("dialog").get_by_role("button", name="Kill").tap()
    expect(page.get_by_text("Session night-build was killed")).to_be_visible()
    expect(page.locator("#stops")).to_contain_text("1 of 1 session has acknowledged")
    fits(page)
    agent.ends()
    assert agent.printed.endswith("killed\n"), agent.printed


def release_the_session_that_is_held(page: Page, system: System) -> None:
    lock = system.folder.path / "orders.lock"
    lock.touch()
    agent = system.agent(MIGRATOR, "migrator-of-orders", "migration-1", str(lock), HALTLINE_MODE="blocking")
    page.goto(system.webhook.link("approval", "migration-1"))
    dialog = page.get_by_role("dialog", name="the whole session")
    expect(dialog.get_by_text("migrate").first).to_be_visible()
    fits(page)
    request_id = page.url.rpartition("/")[2]
    assert page.request.get(f"/api/v1/approvals/{request_id}").json()["status"] == "pending", "a link answers nothing"
    lock.unlink()
    dialog.get_by_role("button", name="Release").tap()
    answer_the_dialog(page, "the table is free again", "Release")
    agent.prints("4200 rows of orders are migrated")
    page.goto("/incidents?session_id=migration-1")
    page.get_by_role("row").filter(has_text="migration-1").get_by_role("button", name="Resolve").tap()
    answer_the_dialog(page, "it has gone on", "Resolve")
    expect(page.get_by_text("No incident is open.")).to_be_visible()
    agent.ends("\n")


def read_how_the_first_incident_ended(page: Page) -> None:
    page.goto("/incidents?state=resolved&session_id=night-build")
    page.get_by_role("link", name="no_progress").tap()
    happened = page.get_by_role("dialog").get_by_role("listitem")
    for text in ("acknowledged by ada", "yaml is missing on the build machine", "resolved by ada (session killed)"):
        expect(happened.filter(has_text=text)).to_have_count(1)
    page.get_by_role("dialog").get_by_role("button", name="Close").tap()


def release_the_session(page: Page) -> None:
    page.goto("/kill")
    killed = page.get_by_role("region", name="Stopped now").get_by_role("row").filter(has_text="night-build")
    expect(killed).to_contain_text(REASON)
    killed.get_by_role("button", name="Release").tap()
    answer_the_dialog(page, "yaml is installed", "Release")
    expect(page.get_by_text("session night-build is released.")).to_be_visible()


def test_the_security_person_proves_it_a_year_later(chromium: Browser, system: System, tmp_path: Path) -> None:
    system.end()
    assert "bootstrap" not in (system.folder.path / ".haltline" / "up.toml").read_text(), "the broker is gone"
    with (
        QuickBroker() as broker,
        archived(tmp_path, system, broker) as (folder, console),
        opened(chromium, console, allowed="report.html", **DESK) as page,
    ):
        page.goto("/audit")
        sign_in(page, system.keys["viewer"])
        page.wait_for_url("**/audit")
        find_what_the_operator_did(page)
        read_who_killed_it_and_why(page)
        assert verify(page, folder, "Verified:", 0).startswith("VERIFIED")
        read_the_exported_story(page, folder)
        DeltaTable(str(folder.path / "audit")).delete(f"kind = 'kill' AND reason = '{REASON}'")
        printed = verify(page, folder, "Not intact", 1)
        missing = page.get_by_role("region", name="Verification").get_by_text(re.compile(r"^haltline\.commands\[\d\]"))
        assert f"WRONG  {missing.inner_text()}" in printed


def verify(page: Page, folder: Folder, verdict: str, code: int) -> str:
    """On the page; what the command line prints of the same table."""
    page.goto("/audit")
    page.get_by_role("button", name="Verify now").click()
    expect(page.locator("#verdict")).to_contain_text(verdict)
    return folder.run("audit", "verify", "--table", "audit", "--public-key", "audit.pem.pub", code=code)


def find_what_the_operator_did(page: Page) -> None:
    box = page.get_by_label("Search everything")
    box.fill("night-build")
    expect(page.get_by_role("group", name="Sessions").get_by_role("option")).to_contain_text("night-build")
    box.fill("ada")
    options = page.get_by_role("group", name="Interventions").get_by_role("option")
    options.filter(has_text="operator in session night-build").click()
    expect(page.locator(".prose")).to_contain_text(f"An operator stopped it: killed by ada: {REASON}")
    expect(page.get_by_role("button", name="Kill session")).to_have_count(0)


def read_who_killed_it_and_why(page: Page) -> None:
    page.get_by_role("link", name="The session's story at this point").click()
    steps = page.locator(".steps li")
    expect(page.locator("li[aria-current=step]")).to_contain_text(f"killed by ada: {REASON}")
    expect(steps.filter(has_text="session_kill by ada")).to_have_count(1)
    expect(steps.filter(has_text="reset by ada: yaml is installed")).to_have_count(1)


def read_the_exported_story(page: Page, folder: Folder) -> None:
    assert f"killed by ada: {REASON}" in folder.run("incidents", "report", "night-build", "--table", "audit")
    page.goto("/incidents?state=resolved&session_id=night-build")
    page.get_by_role("link", name="no_progress").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Report: timeline, impact").click()
    expect(dialog.get_by_text("the session began")).to_be_visible()
    expect(dialog.get_by_role("table", name="The last actions before it").locator("tbody tr").first).to_be_visible()
