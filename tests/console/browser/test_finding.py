"""Finding things: the search of every page, addresses that name nothing, and the page that signs in."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from haltline.console.access.keys import Keys, Role
from haltline.console.settings import ConsoleSettings
from haltline.schemas.topics import Topics
from tests.console.browser.conftest import KEYS, served, signed_in
from tests.console.browser.scene import HOSTILE, LOOP, STUCK, fill_topics
from tests.mock_cluster import QuickBroker

ACCEPT = {"html": "text/html,application/xhtml+xml,*/*;q=0.8", "json": "application/json"}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with QuickBroker() as broker:
        broker.ensure_topics(Topics())
        fill_topics(broker.bootstrap)
        database = f"sqlite:///{tmp_path_factory.mktemp('finding')}/model.db"
        with served(ConsoleSettings(bootstrap=broker.bootstrap, keys=Keys({}), database=database)) as address:
            yield address


@pytest.fixture
def page(chromium: Browser, address: str) -> Iterator[Page]:
    with signed_in(chromium, address, allowed="404") as page:
        yield page


def test_a_session_is_found_from_any_page_with_the_keyboard_alone(page: Page) -> None:
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


def test_the_answer_to_what_was_typed_last_is_shown(page: Page) -> None:
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


@pytest.mark.parametrize(
    ("path", "title"),
    [
        pytest.param("/nothing/here", "Page not found", id="an unknown address"),
        pytest.param("/sessions/none", "Session not found", id="an unknown session"),
        pytest.param("/interventions/int_none", "Intervention not found", id="an unknown intervention"),
        pytest.param("/incidents/none", "Incident not found", id="an unknown incident"),
        pytest.param("/approvals/none", "Approval request not found", id="an unknown approval request"),
        pytest.param("/open/approvals?token=old", "Page not found", id="a link where no links are configured"),
    ],
)
def test_an_address_that_names_nothing_says_so_and_leads_on(page: Page, path: str, title: str) -> None:
    page.goto(path)
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
    expect(page.get_by_role("link", name="Search").first).to_be_visible()
    page.get_by_label("Search everything").fill(STUCK)
    expect(page.get_by_role("option").first).to_contain_text(STUCK)


@pytest.mark.parametrize(
    ("path", "form", "status", "kind"),
    [
        pytest.param("/nothing", "html", 404, "text/html; charset=utf-8", id="a page for a browser"),
        pytest.param("/nothing", "json", 404, "application/json", id="JSON for a client"),
        pytest.param("/api/v1/nothing", "html", 404, "application/json", id="JSON of the API for everybody"),
        pytest.param("/api/v1/sessions/none", "json", 404, "application/json", id="JSON of an unknown id"),
    ],
)
def test_an_error_has_the_form_that_its_reader_reads(
    address: str, path: str, form: str, status: int, kind: str
) -> None:
    headers = {"Accept": ACCEPT[form], "Authorization": f"Bearer {KEYS[Role.VIEWER]}"}
    answer = httpx.get(address + path, headers=headers)
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, kind)
    if form == "html" and kind != "application/json":
        assert "<h1>Page not found</h1>" in answer.text
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    else:
        assert answer.json()["detail"]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_form_that_signs_in_is_in_the_middle(chromium: Browser, address: str, width: int, scheme: str) -> None:
    context = chromium.new_context(base_url=address, viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]  # one of two words
    page = context.new_page()
    try:
        page.goto("/sign-in?problem=key")
        expect(page.get_by_role("heading", name="Sign in", level=1)).to_be_visible()
        expect(page.get_by_role("alert")).to_contain_text("This key is not known.")
        expect(page.get_by_label("Key")).to_have_attribute("autocomplete", "current-password")
        expect(page.get_by_label("Key")).to_be_focused()
        box = page.locator("form").bounding_box()
        assert box is not None
        assert abs(box["x"] + box["width"] / 2 - width / 2) <= 1
        assert abs(box["y"] + box["height"] / 2 - 400) <= 2
    finally:
        context.close()
