"""Every page against axe's rules (WCAG 2.2 A and AA, and best practice), wide and narrow, dark and light."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # annotated, without py.typed
from playwright.sync_api import Browser, Page

from tests.console.browser.conftest import signed_in
from tests.console.browser.every_page import PAGES, furnished, open_page


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with furnished(tmp_path_factory.mktemp("accessibility")) as address:
        yield address


def violations(page: Page, name: str) -> list[str]:
    """What axe finds on a page: the rule, its first place, and what is wrong there."""
    return [
        f"{name}: {one['help']}: {one['nodes'][0]['html'][:160]}: {one['nodes'][0]['failureSummary']}"
        for one in Axe().run(page).response["violations"]
    ]


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        pytest.param(1280, "light", id="wide and light"),
        pytest.param(1280, "dark", id="wide and dark"),
        pytest.param(390, "light", id="on a phone and light"),
        pytest.param(390, "dark", id="on a phone and dark"),
    ],
)
def test_no_page_violates_a_rule_of_accessibility(chromium: Browser, address: str, width: int, scheme: str) -> None:
    with signed_in(chromium, address, viewport={"width": width, "height": 844}, color_scheme=scheme) as page:
        found = []
        for name in PAGES:
            open_page(page, name)
            found += violations(page, name)
        assert found == []


def test_the_sign_in_page_violates_no_rule_of_accessibility(chromium: Browser, address: str) -> None:
    with chromium.new_context(base_url=address) as context:
        page = context.new_page()
        page.goto("/sign-in?problem=key")
        assert violations(page, "sign-in") == []
