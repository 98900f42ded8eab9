"""Unusual data on the pages: very long, invisible, very many; and an unavailable console."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.topics import Topics
from tests.console.browser.conftest import signed_in
from tests.console.browser.scene import HOSTILE, Script, console_with_audit, now_ms
from tests.console.topics import messages_of, produce
from tests.mock_cluster import QuickBroker
from tests.waiting import wait_until

LONG = "long-" + "й" * 200
TURNED = "pay-\u202eecnalab\u200b"
SHOWN = "pay-\u2039U+202E\u203aecnalab\u2039U+200B\u203a"
BUSY = "busy-1"
MANY = 260


def long_names() -> Script:
    script = Script(LONG, "agent-" + "w" * 200, 300, mission_id="m" * 200).starts("A very long goal " * 200)
    for _ in range(3):
        script.calls("delete_" + "z" * 400, "path=/" + "deep/" * 60, error="E" * 3000, text="🙈" * 800)
    return script


def busy() -> Script:
    """More than a page asks for at once, and then what it is stopped for."""
    script = Script(BUSY, "loader", 1900).starts("Load all rows")
    for number in range(510):
        script.calls("put_row", f"row={number}", row=number)
    for _ in range(3):
        script.calls("delete_asset", "asset_id=a", error="still there", asset_id="a")
    return script


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("odd")
    many = [event for n in range(MANY) for event in Script(f"many-{n:03d}", f"a{n}", 500 + n).starts("Wait").events]
    frozen = Command(
        command_id="c1", kind=CommandKind.FREEZE, scope=ScopeKind.TARGET, id=TURNED, by="ada", reason=HOSTILE * 9,
        time=now_ms(),
    )  # fmt: skip
    with QuickBroker() as broker:
        broker.ensure_topics(Topics())
        inputs = [*long_names().events, *busy().events, *many, *Script(TURNED, TURNED, 60).starts(TURNED).events]
        produce(broker.bootstrap, messages_of([*inputs, frozen]))
        with console_with_audit(broker.bootstrap, folder) as (address, _):
            yield address


@pytest.fixture
def page(chromium: Browser, address: str) -> Iterator[Page]:
    with signed_in(chromium, address, viewport={"width": 1280, "height": 800}) as page:
        yield page


def height(of: Locator) -> float:
    """In pixels; a page that is drawn again in between has it a moment later."""
    found: list[float] = []

    def is_drawn() -> bool:
        box = of.bounding_box()
        found[:] = [] if box is None else [box["height"]]
        return bool(found)

    wait_until(is_drawn, "it is drawn")
    return found[0]


def test_names_that_are_very_long_or_unseen_are_shown_in_whole_and_within_reach(page: Page) -> None:
    for name in ("fleet", "interventions", "sessions", "kill"):
        page.goto(f"/{name}")
        cell = page.locator("td.id").filter(has_text=LONG[:40]).first
        expect(cell).to_be_visible()
        assert height(cell) < 100, name
        expect(cell.locator("[title]")).to_have_attribute("title", f"session {LONG}" if name == "kill" else LONG)
        for table in page.locator(".scroll").all():
            assert table.evaluate("of => of.scrollWidth - of.clientWidth") <= 0, f"{name}: a column is out of sight"
    expect(page.get_by_role("button", name="Release").first).to_be_in_viewport()
    page.goto("/sessions")
    page.get_by_role("link", name=LONG[:40]).press("Enter")  # its middle is among the lines that are left out
    expect(page.locator("h1")).to_have_text(LONG)
    page.goto("/sessions")
    row = page.locator("tbody tr").filter(has_text=SHOWN)
    expect(row.locator("td").nth(0)).to_have_text(SHOWN)
    expect(row.locator("td").nth(1)).to_have_text(SHOWN)
    row.get_by_role("link").first.click()
    expect(page.locator("h1")).to_have_text(SHOWN)
    page.goto("/kill")
    held = page.get_by_role("row").filter(has_text=f"target {SHOWN}")
    expect(held.get_by_role("button", name="Lift")).to_be_in_viewport()
    held.get_by_role("button", name="Lift").click()
    expect(page.get_by_role("dialog", name=f"Lift target {SHOWN}")).to_be_visible()
    assert page.evaluate("window.hurt") is None


def test_very_many_are_previewed_summed_and_gone_through_within_reach(page: Page) -> None:
    page.goto("/kill?scope=fleet")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#preview")).to_contain_text(f"{MANY + 3} sessions of {MANY + 3} agents would be stopped")
    expect(page.locator("#preview")).to_contain_text("and 251 more")
    box = page.get_by_role("region", name="Affected sessions")
    expect(box.locator("tbody tr")).to_have_count(200)
    expect(page.get_by_text(f"The 200 last active; all {MANY + 3} are affected.")).to_be_visible()
    assert height(box) < 600
    expect(page.get_by_role("button", name=f"Kill {MANY + 3} sessions")).to_be_enabled()
    page.goto(f"/interventions?run_id={BUSY}&outcome=blocked")
    page.locator("tbody tr a").first.click()
    page.get_by_role("link", name="The session's story at this point").click()
    expect(page.locator("li[aria-current=step]")).to_contain_text("session_killed")
    expect(page.locator("#state")).to_contain_text("KILL")
    held: list[Route] = []
    rest = f"**/api/v1/sessions/{BUSY}?skip=1000*"
    page.route(rest, lambda route: held.append(route))  # noqa: PLW0108  # Playwright takes no builtin
    with page.expect_request(rest):
        page.goto(f"/sessions/{BUSY}?step=1000")
    expect(page.locator("output")).to_have_text("1,000 of the first 1,000")
    held[0].continue_()
    expect(page.locator("output")).not_to_contain_text("first")
    assert page.locator("main *").count() < 3_000, "what is out of sight is not drawn"
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("heading", name="State at step 1,001", exact=True)).to_be_visible()


def test_a_console_that_is_away_says_so_and_is_there_again(chromium: Browser, address: str) -> None:
    with signed_in(chromium, address, allowed="ERR_INTERNET_DISCONNECTED") as page:
        page.goto("/kill?scope=session&id=" + BUSY)
        expect(page.locator("#preview")).to_be_visible()
        page.context.set_offline(True)
        page.get_by_role("button", name="Preview").click()
        away = "The console cannot be reached. What is shown may be out of date."
        expect(page.get_by_role("alert").filter(has_text=away).first).to_be_visible()
        page.evaluate("dispatchEvent(new Event('online'))")  # as where only some of a network is there again
        expect(page.get_by_role("region", name="Stopped now").get_by_role("alert")).to_be_visible()
        page.context.set_offline(False)
        page.get_by_role("button", name="Preview").click()
        expect(page.get_by_role("button", name="Kill 1 session")).to_be_enabled()
        expect(page.get_by_role("alert")).to_have_count(0)
