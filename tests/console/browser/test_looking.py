"""What somebody who looks finds out, in a real browser; what workers would have written is on the topics already."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from haltline.console.access.keys import Role
from tests.console.browser.conftest import console_of, signed_in
from tests.console.browser.scene import HOSTILE, LOOP, STUCK, fill_topics, runaway
from tests.console.topics import messages_of, produce


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The broker's address, and the console's."""
    with console_of(tmp_path_factory.mktemp("looking"), fill_topics) as system:
        yield system


@pytest.fixture
def broker(system: tuple[str, str]) -> str:
    return system[0]


@pytest.fixture
def address(system: tuple[str, str]) -> str:
    return system[1]


@pytest.fixture
def page(chromium: Browser, address: str) -> Iterator[Page]:
    with signed_in(chromium, address) as page:
        yield page


def test_a_trip_is_found_by_cards_chips_and_words_and_the_address_keeps_them(page: Page) -> None:
    page.get_by_role("link", name="Interventions", exact=True).click()
    expect(page.get_by_role("button", name="total")).not_to_contain_text("0 total")
    blocked = page.get_by_role("button", name="high-risk blocks")
    expect(blocked).to_contain_text("2")
    blocked.click()
    expect(blocked).to_have_attribute("aria-pressed", "true")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)
    page.get_by_label("Search", exact=True).fill("fact_sales")
    page.get_by_label("Search", exact=True).press("Enter")
    expect(rows).to_have_count(1)
    rows.get_by_role("link", name="delete_asset").click()
    expect(page.get_by_text("Loop detected: 3 deletes on asset_id=fact_sales").first).to_be_visible()
    expect(page.get_by_role("link", name="destructive_repeat").first).to_be_visible()
    page.goto("/interventions")
    page.get_by_role("button", name="Critical").click()
    expect(rows.first.locator("td").nth(3)).to_have_text("critical")
    page.reload()
    expect(page.get_by_role("button", name="Critical")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="> $100 prevented").click()
    expect(page.get_by_text("No interventions match.")).to_be_visible()
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("button", name="error_repetition").click()
    expect(rows.first).to_contain_text("run_tests")


def test_a_session_is_stepped_through_with_what_was_known_at_each_step(page: Page) -> None:
    page.goto(f"/sessions/{LOOP}")
    state, step = page.locator("#state"), page.locator("li[aria-current=step]")
    expect(state).to_contain_text("KILL")
    page.keyboard.press("Home")
    expect(page.get_by_role("heading", name="State at step 1", exact=True)).to_be_visible()
    expect(state).to_contain_text("ALLOW")
    expect(state).to_contain_text("0 rules with findings")
    page.get_by_role("button", name="Next trip").click()
    expect(step).to_contain_text("nudged")
    expect(state).to_contain_text("NUDGE")
    page.get_by_role("button", name="Step back").click()
    expect(state).to_contain_text("ALLOW")
    page.keyboard.press("ArrowRight")
    expect(state).to_contain_text("NUDGE")
    page.keyboard.press("n")
    expect(state).to_contain_text("KILL")
    expect(page.get_by_text("Near misses of other rules at this step")).to_be_visible()
    # Which rule was how near, made again; with what was measured beside the threshold.
    expect(page.locator(".meter.over").filter(has_text="destructive_repeat").first).to_be_visible()
    page.locator(".finding").filter(has_text="destructive_volume").locator("summary").click()
    expect(page.locator(".finding").filter(has_text="destructive_volume")).to_contain_text("3 / 3")
    page.locator(".evidence button").first.click()
    expect(step).to_contain_text("proposed delete_asset")


def test_what_happens_is_shown_as_it_happens(page: Page, broker: str) -> None:
    expect(page.get_by_role("status").filter(has_text="live")).to_be_visible()
    before = page.locator("a.card").filter(has_text="killed").locator("strong").inner_text()
    produce(broker, messages_of(runaway("night-8").events))
    expect(page.get_by_role("link", name="night-8").first).to_be_visible()
    expect(page.locator("a.card").filter(has_text="killed").locator("strong")).to_have_text(str(int(before) + 1))


def test_what_agents_write_is_text_on_every_page(page: Page) -> None:
    evil = f"evil-{HOSTILE}"
    for name in ("fleet", "interventions", "sessions", "kill"):
        page.goto(f"/{name}")
        expect(page.get_by_text(evil).first).to_be_visible()
    page.get_by_role("link", name=evil).first.click()
    expect(page.locator("h1")).to_have_text(evil)
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator("pre").filter(has_text="onerror").first).to_be_visible()
    page.goto(f"/interventions?search={HOSTILE[:20]}")
    page.locator("tbody tr a").first.click()
    expect(page.locator("h1")).to_contain_text(HOSTILE)
    assert page.evaluate("window.hurt") is None
    assert page.locator("img").count() == 0


def test_a_phone_reaches_kill_in_one_touch_and_folds_its_filters(chromium: Browser, address: str) -> None:
    size = {"width": 390, "height": 844}
    with signed_in(chromium, address, Role.OPERATOR, viewport=size, has_touch=True, is_mobile=True) as page:
        page.goto(f"/sessions/{STUCK}")
        page.locator("#kill-now").tap()
        expect(page.get_by_label("Id")).to_have_value(STUCK)
        expect(page.locator("#preview")).to_contain_text("1 session")
        page.goto("/interventions?risk_level=critical")
        expect(page.locator("tbody tr").first).to_be_visible()
        expect(page.get_by_label("Outcome")).to_be_hidden()
        page.get_by_text("Filters (1)").tap()
        page.get_by_label("Outcome").select_option("blocked")
        expect(page.get_by_text("Filters (2)")).to_be_visible()
    with signed_in(chromium, address, Role.VIEWER, viewport=size) as page:
        expect(page.locator("#who")).to_contain_text("viewer")
        expect(page.locator("#kill-now")).to_be_hidden()


def test_everything_is_reached_by_keyboard(page: Page) -> None:
    page.keyboard.press("?")
    help_ = page.get_by_role("dialog", name="Keyboard")
    expect(help_).to_contain_text("go to approvals")
    page.keyboard.press("Escape")
    expect(help_).to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_url("**/sessions")
    expect(page.locator("tbody tr").first).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_label("Search everything")).to_be_focused()
    page.keyboard.press("Escape")
    page.get_by_label("Search", exact=True).fill(STUCK)
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    row = page.locator("tbody tr").first
    expect(row).to_be_focused()
    expect(row).to_have_css("outline-style", "solid")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/sessions/{STUCK}")


def test_a_viewer_finds_no_button_that_stops_anybody(chromium: Browser, address: str) -> None:
    with signed_in(chromium, address, Role.VIEWER) as page:
        page.goto("/kill")
        expect(page.get_by_text("You are signed in as viewer")).to_be_visible()
        expect(page.get_by_role("row").filter(has_text=LOOP)).to_be_visible()
        expect(page.get_by_role("button", name="Kill")).to_have_count(0)
        expect(page.get_by_role("button", name="Release")).to_have_count(0)
        page.goto(f"/sessions/{STUCK}")
        expect(page.locator("#state")).to_be_visible()
        expect(page.get_by_role("link", name="Kill this session")).to_have_count(0)


def test_who_signs_out_is_out_and_a_wrong_key_says_so(chromium: Browser, address: str) -> None:
    with signed_in(chromium, address, allowed="401") as page:
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url("**/sign-in")
        page.goto("/kill")
        page.wait_for_url("**/sign-in?next=/kill")
        page.get_by_label("Key").fill("hl_wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("This key is not known.")
        page.get_by_label("Key").fill("hl_admin")
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/kill")


def test_an_empty_console_says_what_will_come(chromium: Browser, tmp_path: Path) -> None:
    with console_of(tmp_path) as (_, address), signed_in(chromium, address) as page:
        expect(page.get_by_text("They appear as soon as an agent publishes")).to_be_visible()
        for name, text in (
            ("interventions", "No interventions yet."),
            ("kill", "Nothing is stopped."),
            ("approvals", "No requests are waiting."),
            ("precision", "No decisions are labelled yet."),
            ("audit", "No audit table"),
        ):
            page.goto(f"/{name}")
            expect(page.get_by_text(text).first).to_be_visible()


def test_a_failure_is_reported_in_the_servers_words_and_can_be_tried_again(chromium: Browser, address: str) -> None:
    with signed_in(chromium, address, allowed="503") as page:
        away = {"detail": "broker x:9092: away"}
        page.route("**/api/v1/interventions?*", lambda route: route.fulfill(status=503, json=away))
        page.goto("/interventions")
        expect(page.get_by_role("alert")).to_contain_text("broker x:9092: away")
        page.unroute_all()
        page.get_by_role("button", name="Try again").click()
        expect(page.locator("tbody tr").first).to_be_visible()
