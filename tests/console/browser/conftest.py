"""A real Chromium before a real console, on an embedded broker."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, StorageState, expect, sync_playwright

from haltline.console.access.keys import Keys, Role, Who
from haltline.console.app import create_app
from haltline.console.settings import ConsoleSettings, ProtectionLimits
from tests.browsers import NO_BROWSER, program
from tests.waiting import wait_until

KEYS = {role: f"hl_{role}" for role in Role}
SECOND = "hl_second"
_WITHIN_MS = 30_000
"""For what a page shows after a while, also where much else runs."""
expect.set_options(timeout=_WITHIN_MS)
_SIGNED_IN: dict[tuple[str, str], StorageState] = {}


UNWATCHED = ProtectionLimits(workers_s=1e9, shadow_s=1e9, sink_s=1e9, broker_s=1e9, console_s=1e9, canary_s=1e9)
"""Limits for scenes without workers: all records are on the topics already."""


@contextmanager
def served(settings: ConsoleSettings, protection: ProtectionLimits = UNWATCHED) -> Iterator[str]:
    """A console at an address of its own, until the end of the block."""
    keys = Keys.of(
        [*((key, Who(f"{role} ada", role)) for role, key in KEYS.items()), (SECOND, Who("bea", Role.OPERATOR))]
    )
    app = create_app(replace(settings, keys=keys, protection=protection))
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        wait_until(lambda: server.started and app.state.context.feeder.caught_up.is_set(), "the console has caught up")
        yield address
    finally:
        for key in (*KEYS.values(), SECOND):
            _SIGNED_IN.pop((address, key), None)
        app.state.live.close()
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture(scope="package")  # its event loop runs for as long, and tests of other packages want theirs
def chromium() -> Iterator[Browser]:
    if program() is None:
        if os.environ.get("CI") == "true":
            pytest.fail(NO_BROWSER)
        pytest.skip(NO_BROWSER)
    with sync_playwright() as playwright, launched(playwright) as browser:
        yield browser


@contextmanager
def launched(playwright: Playwright) -> Iterator[Browser]:
    """The browser, until the end of the block."""
    # No sandbox: CI runs as root, and the pages are our own.
    browser = playwright.chromium.launch(executable_path=program(), args=["--no-sandbox", "--disable-dev-shm-usage"])
    yield browser
    browser.close()


@contextmanager
def signed_in(
    browser: Browser, address: str, role: Role = Role.ADMIN, *, key: str | None = None, allowed: str = "-", **more: Any
) -> Iterator[Page]:
    """A blank page of somebody who has signed in: of each console once, and what the browser has kept is used again."""
    who = (address, key or KEYS[role])
    if who not in _SIGNED_IN:
        with opened(browser, address) as page:
            page.goto("/sign-in")
            sign_in(page, who[1])
            page.wait_for_url("**/fleet")
            _SIGNED_IN[who] = page.context.storage_state()
    with opened(browser, address, allowed=allowed, storage_state=_SIGNED_IN[who], **more) as page:
        yield page


def sign_in(page: Page, key: str) -> None:
    """On the page that asks for a key."""
    page.get_by_label("Key").fill(key)
    page.get_by_role("button", name="Sign in").click()


@contextmanager
def opened(browser: Browser, address: str, *, allowed: str = "-", **more: Any) -> Iterator[Page]:
    """A page of a browser of its own; nothing is asked of elsewhere, and no error is told but `allowed` ones."""
    context: BrowserContext = browser.new_context(base_url=address, **more)
    context.set_default_timeout(_WITHIN_MS)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console",
        lambda result: errors.append(f"{result.text} {result.location['url']}") if result.type == "error" else None,
    )
    page.on(
        "request",
        lambda request: errors.append(request.url) if not request.url.startswith((address, "data:")) else None,
    )
    try:
        yield page
        assert [error for error in errors if allowed not in error] == []
    finally:
        context.close()


class Scene(NamedTuple):
    """A broker with a fleet on its topics, a console over it, and the audit table."""

    broker: str
    address: str
    table: Path


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """One scene for all tests of a module, which share its changes."""
    from tests.console.browser.every_page import furnished  # noqa: PLC0415  # it imports this module

    with furnished(tmp_path_factory.mktemp("scene")) as scene:
        yield scene


@pytest.fixture
def page(chromium: Browser, scene: Scene) -> Iterator[Page]:
    """An admin's blank page."""
    with signed_in(chromium, scene.address, viewport={"width": 1280, "height": 900}) as page:
        yield page


def answer(page: Page, path: str) -> Any:
    """The API's response to the page's signed-in user."""
    return page.context.request.get(path).json()
