"""Every page of the console over the same scene: for the checks that hold for all of them, and their pictures."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, expect

from haltline.schemas.topics import Topics
from tests.console.browser.conftest import Scene
from tests.console.browser.scene import LOOP, console_with_audit, fill_topics
from tests.mock_cluster import QuickBroker

PAGES: Final = {
    "fleet": "/fleet",
    "incidents": "/incidents",
    "incident": "/incidents",  # and from there to the first
    "interventions": "/interventions",
    "intervention": f"/interventions?run_id={LOOP}",  # as above
    "sessions": "/sessions",
    "session": f"/sessions/{LOOP}",
    "approvals": "/approvals",
    "kill": f"/kill?scope=session&id={LOOP}",
    "policies": "/policies",
    "precision": "/precision",
    "audit": "/audit",
    "docs": "/docs",
}
"""The start address of each page, by name."""

_FIRST: Final = {"incident": "a[href^='/incidents/']", "intervention": "a[href^='/interventions/']"}
"""The link that leads to the page from the list where it begins."""


@contextmanager
def furnished(folder: Path) -> Iterator[Scene]:
    """A console with something on each page, an audit table included."""
    with QuickBroker() as broker:
        broker.ensure_topics(Topics())
        fill_topics(broker.bootstrap)
        with console_with_audit(broker.bootstrap, folder) as (address, table):
            yield Scene(broker.bootstrap, address, table)


def open_page(page: Page, name: str) -> None:
    """Opens the page of this name, and returns when all that it loads is shown."""
    page.goto(PAGES[name])
    if name in _FIRST:
        with page.expect_navigation():
            page.locator(f"main {_FIRST[name]}").first.click()
    wait_until_usable(page)


def wait_until_usable(page: Page) -> None:
    """Wait until the view has loaded its initial content."""
    expect(page.locator("main[aria-busy=false]")).to_be_visible()
