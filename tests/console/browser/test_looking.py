"""The pages for viewers in a real browser; the topics contain records as workers write them."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from haltline.console.access.keys import Role
from tests.console.browser.conftest import Scene, signed_in
from tests.console.browser.scene import ASKS, HOSTILE, LOOP, STUCK, runaway, waits
from tests.console.topics import messages_of, produce
from tests.waiting import wait_until


def test_a_trip_is_found_by_cards_chips_and_words_and_the_address_keeps_them(page: Page) -> None:
    page.goto("/fleet")
    page.get_by_role("link", name="Interventions", exact=True).click()
    expect(page.get_by_role("button", name="total")).not_to_contain_text("0 total")
    blocked = page.get_by_role("button", name="high-risk blocks")
    number = int(blocked.locator("strong").inner_text())
    assert number >= 2
    blocked.click()
    expect(blocked).to_have_attribute("aria-pressed", "true")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(number)
    page.get_by_label("Search", exact=True).fill(LOOP)
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
    expect(page.locator("#irreversible li").first).to_contain_text("destroys")
    expect(page.get_by_text("Near misses of other rules at this step")).to_be_visible()
    # Which rule was how near, made again; with what was measured beside the threshold.
    expect(page.locator(".meter.over").filter(has_text="destructive_repeat").first).to_be_visible()
    page.locator(".finding").filter(has_text="destructive_volume").locator("summary").click()
    expect(page.locator(".finding").filter(has_text="destructive_volume")).to_contain_text("3 / 3")
    page.locator(".evidence button").first.click()
    expect(step).to_contain_text("proposed delete_asset")


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


def test_a_phone_reaches_kill_in_one_touch_and_folds_its_filters(chromium: Browser, scene: Scene) -> None:
    size = {"width": 390, "height": 844}
    with signed_in(chromium, scene.address, Role.OPERATOR, viewport=size, has_touch=True, is_mobile=True) as page:
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
    with signed_in(chromium, scene.address, Role.VIEWER, viewport=size) as page:
        page.goto("/fleet")
        expect(page.locator("#who")).to_contain_text("viewer")
        expect(page.locator("#kill-now")).to_be_hidden()


def test_everything_is_reached_by_keyboard(page: Page) -> None:
    page.goto("/fleet")
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


def test_an_address_that_names_nothing_says_so_and_leads_on(chromium: Browser, scene: Scene) -> None:
    with signed_in(chromium, scene.address, allowed="404") as page:
        for path, title in (("incidents", "Incident"), ("approvals", "Approval request"), ("sessions", "Session")):
            page.goto(f"/{path}/none")
            expect(page.get_by_role("heading", name=f"{title} not found")).to_be_visible()
            expect(page.get_by_role("navigation", name="Pages")).to_be_visible()


NOW_MS = "Date.parse('2026-11-23T14:05:00')"  # in the reader's zone
MIN, H, D = 60, 3600, 86_400


@pytest.fixture(scope="module")
def in_new_york(chromium: Browser, scene: Scene) -> Iterator[Page]:
    with signed_in(chromium, scene.address, timezone_id="America/New_York") as page:
        page.goto("/fleet")
        yield page


def say(page: Page, expression: str) -> str:
    text = page.evaluate(f"async () => {{ const say = await import('/static/say.js'); return say.{expression}; }}")
    return str(text).replace("\u00a0", " ")


NUMBERS = {
    "count(12345)": "12.3 k",
    "plural(2500000, 'event')": "2.5 M events",
    "usd(0.004)": "$0.004",
    "usd(999.999)": "$1 k",
    "prevented(0)": "no prices configured",
    "span(65000)": "1 min 5 s",
    "span(97200000)": "1 d 3 h",
    "prose('loop_detected, 3 deletes on x')": "Loop detected: 3 deletes on x",
    "prose('the owner, who knows')": "the owner, who knows",
    "relative('2026-11-20T00:00:00Z', Date.parse('2026-11-20T00:00:03Z'))": "just now",
}
AGO_S = {
    0: "just now",
    2 * MIN + 50: "2 min ago",
    5 * H + 59 * MIN: "5 h ago",
    13 * H: "today 01:05",
    3 * D: "Fri 14:05",
    400 * D: "Oct 19, 2025",
    -26 * H: "tomorrow 16:05",
}


def test_numbers_durations_and_times_are_written_as_people_do(in_new_york: Page) -> None:
    assert {expression: say(in_new_york, expression) for expression in NUMBERS} == NUMBERS
    assert {ago: say(in_new_york, f"relative({NOW_MS} - {ago * 1000}, {NOW_MS})") for ago in AGO_S} == AGO_S


SPY = """
window.Notification = class { constructor(title, more) { window.sent.push({ title, ...more }); } };
window.Notification.permission = "granted";
window.Notification.requestPermission = async () => "granted";
window.sent = [];
const later = window.setTimeout;  // it looks each ten seconds
window.setTimeout = (run, wait, ...more) => later(run, wait === 10000 ? 300 : wait, ...more);
"""


def test_those_who_want_it_are_notified_once_of_a_kill_and_of_a_call_that_waits(
    chromium: Browser, scene: Scene
) -> None:
    def titles(of: Page) -> list[str]:
        return [one["title"] for one in of.evaluate("window.sent")]

    with signed_in(chromium, scene.address, permissions=["notifications"]) as page:
        page.context.add_init_script(SPY)
        page.goto("/fleet")
        page.get_by_role("button", name="Notify me").click()
        expect(page.get_by_role("button", name="Notify me")).to_have_attribute("aria-pressed", "true")
        second = page.context.new_page()
        second.goto("/approvals")
        expect(second.get_by_role("button", name="Notify me")).to_have_attribute("aria-pressed", "true")
        produce(scene.broker, messages_of(runaway("later-9").events))
        wait_until(lambda: titles(page) == ["Session later-9 was killed"], "the kill is notified")
        produce(scene.broker, messages_of(waits(7).events, ASKS))
        wait_until(lambda: len(titles(page)) == 2, "the call that waits is notified")
        (_, asked) = page.evaluate("window.sent")
        assert asked["title"] == "Approve drop_table?"
        assert "table=stg_7" in asked["body"]
        assert asked["tag"].startswith("haltline-")
        assert titles(second) == []
        page.reload()
        second.close()
        page.get_by_role("button", name="Notify me").click()
        expect(page.get_by_role("button", name="Notify me")).to_have_attribute("aria-pressed", "false")
        assert titles(page) == []
