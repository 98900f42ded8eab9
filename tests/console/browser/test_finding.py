"""Finding things: the search of every page, and addresses that name nothing."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.console.browser.conftest import console_of, signed_in
from tests.console.browser.scene import HOSTILE, LOOP, STUCK, fill_topics


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with console_of(tmp_path_factory.mktemp("finding"), fill_topics) as (_, address):
        yield address


@pytest.fixture
def page(chromium: Browser, address: str) -> Iterator[Page]:
    with signed_in(chromium, address, allowed="404") as page:
        yield page


def test_a_session_is_found_with_the_keyboard_alone_by_what_was_typed_last(page: Page) -> None:
    page.goto("/policies")
    box = page.get_by_role("combobox", name="Search everything")
    expect(page.locator("#document")).to_be_visible()
    page.keyboard.press("Control+k")
    expect(box).to_be_focused()
    page.keyboard.type(LOOP)
    options = page.get_by_role("listbox", name="Results").get_by_role("option")
    expect(options.first).to_contain_text("Remove the stale asset fact_sales")
    expect(box).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    expect(box).to_have_attribute("aria-activedescendant", "find-0")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/sessions/{LOOP}")
    page.keyboard.press("/")
    page.keyboard.type("no such thing anywhere")
    expect(page.get_by_text('Nothing matches "no such thing anywhere".')).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox", name="Results")).to_be_hidden()
    held: list[Route] = []
    page.route("**/api/v1/search?q=night*", lambda route: held.append(route))  # noqa: PLW0108  # Playwright takes no builtin
    box = page.get_by_label("Search everything")
    with page.expect_request("**/api/v1/search?q=night*"):
        box.fill("night")
    box.fill(STUCK)
    options = page.get_by_role("listbox").get_by_role("option")
    expect(options.first).to_contain_text(STUCK)
    with page.expect_response("**/api/v1/search?q=night*"):
        held[0].continue_()
    expect(options.first).to_contain_text(STUCK)


def test_all_results_lead_to_what_touched_a_target_and_to_an_agents_sessions(page: Page) -> None:
    page.get_by_label("Search everything").fill("fact_sales")
    page.get_by_label("Search everything").press("Enter")
    page.wait_for_url("**/search?q=fact_sales")
    targets = page.get_by_role("region", name="Targets")
    targets.get_by_role("link", name="sessions").click()
    expect(page.locator("tbody tr").filter(has_text=LOOP)).to_have_count(1)
    page.go_back()
    targets.get_by_role("link", name="asset_id=fact_sales").click()
    page.wait_for_url("**/interventions?search=*")
    expect(page.locator("tbody tr").first).to_contain_text(LOOP)
    page.goto("/search?q=builder")
    page.get_by_role("region", name="Agents").get_by_role("link", name="builder").click()
    page.wait_for_url("**/sessions?agent_id=builder")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.goto("/search?q=onerror")
    expect(page.get_by_role("region", name="Sessions").get_by_role("link")).to_contain_text(HOSTILE)
    assert page.evaluate("window.hurt") is None


NOT_FOUND = {
    "/nothing/here": "Page not found",
    "/sessions/none": "Session not found",
    "/interventions/int_none": "Intervention not found",
    "/incidents/none": "Incident not found",
    "/approvals/none": "Approval request not found",
    "/open/approvals?token=old": "Page not found",  # no links are configured
}


def test_an_address_that_names_nothing_says_so_and_leads_on(page: Page) -> None:
    for path, title in NOT_FOUND.items():
        page.goto(path)
        expect(page.get_by_role("heading", name=title)).to_be_visible()
        expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
        expect(page.get_by_role("link", name="Search").first).to_be_visible()
        page.get_by_label("Search everything").fill(STUCK)
        expect(page.get_by_role("option").first).to_contain_text(STUCK)
