"""Checks of every page: it is accessible, fits its screen, is small, and becomes usable.

How soon depends on what else the machine does; `make screenshots` prints it of each page, on a slow processor.
"""

from typing import Any, Final

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # annotated, without py.typed
from playwright.sync_api import Browser, Page, expect

from tests.console.browser.conftest import Scene, signed_in
from tests.console.browser.every_page import PAGES, open_page, wait_until_usable

BEYOND = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
GROUND = "getComputedStyle(document.documentElement).backgroundColor"
MAX_BYTES = 300_000
WITHOUT_A_CHART = ("sessions", "incidents", "approvals", "kill", "policies")
DESK: Final[dict[str, Any]] = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"}
PHONE: Final[dict[str, Any]] = {"viewport": {"width": 390, "height": 800}, "color_scheme": "light", "has_touch": True}
COLOURFUL, OF_COLOUR = ("fleet", "intervention", "session", "approvals"), ("color-contrast",)
"""Together they have every colour that means something; by day they are asked about these once more."""


def violations(page: Page, name: str, *rules: str) -> list[str]:
    """Axe's findings on a page by WCAG 2.2 A and AA and best practice: the rule, its first place, the problem."""
    options: dict[str, Any] = {"resultTypes": ["violations"]}  # of what is in order, it is not told where
    if rules:
        options["runOnly"] = {"type": "rule", "values": rules}
    return [
        f"{name}: {one['help']}: {one['nodes'][0]['html'][:160]}: {one['nodes'][0]['failureSummary']}"
        for one in Axe().run(page, options=options).response["violations"]
    ]


def test_every_page_is_accessible_fits_and_is_small_at_a_desk_and_is_usable_on_a_phone_by_day(
    chromium: Browser, scene: Scene
) -> None:
    with signed_in(chromium, scene.address, **DESK, has_touch=True) as page:
        devtools = page.context.new_cdp_session(page)
        devtools.send("Network.enable")
        received: dict[str, float] = {}
        devtools.on(
            "Network.loadingFinished", lambda one: received.update({one["requestId"]: one["encodedDataLength"]})
        )
        found = []
        for name in PAGES:
            page.set_viewport_size(DESK["viewport"])
            page.emulate_media(color_scheme="dark")
            devtools.send("Network.setCacheDisabled", {"cacheDisabled": True})
            received.clear()
            open_page(page, name)
            page.wait_for_function("document.readyState === 'complete'")
            assert 10_000 < sum(received.values()) < MAX_BYTES, name
            loaded = page.evaluate("performance.getEntriesByType('resource').map(one => one.name.toLowerCase())")
            assert not (name in WITHOUT_A_CHART and any("uplot" in url for url in loaded)), f"{name} draws nothing"
            fits(page, name)
            found += violations(page, name)
            assert is_dark(page.evaluate(GROUND)), name
            devtools.send("Network.setCacheDisabled", {"cacheDisabled": False})
            page.set_viewport_size(PHONE["viewport"])
            page.emulate_media(color_scheme="light")
            page.reload()
            wait_until_usable(page)
            fits(page, name)
            reaches_kill_in_one_touch(page, name)
            found += violations(page, name, *OF_COLOUR) if name in COLOURFUL else []
            assert not is_dark(page.evaluate(GROUND)), name
        assert found == []
        page.get_by_role("button", name="Theme").click()
        assert is_dark(page.evaluate(GROUND))
        page.reload()
        assert is_dark(page.evaluate(GROUND))


def fits(page: Page, name: str) -> None:
    beyond = page.evaluate(BEYOND)
    assert beyond <= 0, f"{name} is {beyond} px wider than the screen"


def is_dark(ground: str) -> bool:
    """Return whether a colour, in the browser's form `rgb(...)`, is dark."""
    return sum(map(int, ground[4:-1].split(","))) < 384


def reaches_kill_in_one_touch(page: Page, name: str) -> None:
    kill = page.locator("#kill-now")
    if name == "kill":
        expect(kill).to_be_hidden()
        return
    expect(kill).to_be_in_viewport(ratio=1)
    box = kill.bounding_box()
    assert box is not None
    assert min(box["width"], box["height"]) >= 48, name


def test_the_form_that_signs_in_is_accessible_and_in_the_middle(chromium: Browser, scene: Scene) -> None:
    with chromium.new_context(base_url=scene.address, **PHONE) as context:
        page = context.new_page()
        page.goto("/sign-in?problem=key")
        expect(page.get_by_role("heading", name="Sign in", level=1)).to_be_visible()
        expect(page.get_by_role("alert")).to_contain_text("This key is not known.")
        expect(page.get_by_label("Key")).to_have_attribute("autocomplete", "current-password")
        expect(page.get_by_label("Key")).to_be_focused()
        box = page.locator("form").bounding_box()
        assert box is not None
        assert abs(box["x"] + box["width"] / 2 - PHONE["viewport"]["width"] / 2) <= 1
        assert abs(box["y"] + box["height"] / 2 - 400) <= 2
        assert violations(page, "sign-in") == []
